/* libmuster on GPU memory (CUDA), in the order of the caller's streams.
 *
 * muster_device_attach() loads the CUDA driver and NCCL at run time. So one libmuster serves hosts with and without
 * GPUs. Ranks with a GPU each use NCCL. Ranks of a host that share a GPU or lack NCCL use kernels that reduce memory
 * mapped by CUDA IPC. All others use pinned host memory. MUSTER_DEVICE_PATH chooses one of the three.
 *
 * Asynchrony: a call enqueues the operation and returns without waiting. The operation begins on the device when
 * `stream` (a cudaStream_t of the attached GPU) reaches this point. Later work on `stream` waits until the operation is
 * done. Do not touch the buffers until then. A thread of libmuster meets the other ranks. Operations of one
 * communicator run one at a time, in the order of the calls, together with its other collectives.
 *
 * Errors: muster_wait() on the request returns them. After a failed operation its stream goes on, and the contents of
 * outputs are undefined. So check the request before you use the outputs. A rank that dies ends the
 * communicator, as everywhere, and does not hold any stream.
 *
 * Deadlocks: during an operation, `stream` waits on the device for something that CUDA does not know. So no thread on
 * which the operation depends, on any rank, may wait for all streams of the GPU. Three things hide such a wait:
 *
 *   * The first launch of a kernel may load it. Launch your kernels once before, or set CUDA_MODULE_LOADING=EAGER.
 *     libmuster's kernels have run when muster_device_attach() returns. So have NCCL's, except for alltoall, which
 *     connects all pairs of ranks at its first use. If you use alltoall, begin with one.
 *   * Freeing memory waits. Do not call muster_device_buffer_free() while other threads start operations of the same
 *     communicator.
 *   * Streams of one priority share GPU queues (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default). A stream that shares its
 *     queue with `stream` may wait with it. libmuster's streams have the greatest priority. Give yours another one, or
 *     use more queues.
 *
 * CUDA graphs: a call on a stream that is being captured returns MUSTER_INVALID and does not change the capture.
 * libmuster's threads do not disturb captures of other streams. Threads, other errors and ownership are as in muster.h.
 */
#ifndef MUSTER_DEVICE_H_
#define MUSTER_DEVICE_H_

#include <muster/muster.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective, once for a communicator. Afterwards the functions below accept memory of GPU `device`, which is CUDA's
 * number of this rank's GPU in this process. A communicator that muster_comm_split() made from one that uses NCCL, on
 * the same GPUs, uses a part of that NCCL communicator, so nothing is formed anew.
 * MUSTER_MISMATCH or MUSTER_INVALID, on all ranks, if a rank has no driver or no such GPU, or if the path of
 * MUSTER_DEVICE_PATH is unavailable. The communicator is unchanged then. */
MUSTER_API muster_code muster_device_attach(muster_comm* comm, int device, muster_error** error);
/* "nccl", "ipc" or "staged"; NULL if not attached. Never free it. */
MUSTER_API const char* muster_device_path(const muster_comm* comm);
/* Why no faster path was chosen, and why this rank has no kernels, such as "not nccl: ranks share a GPU". "" if there
 * is nothing to report, as when MUSTER_DEVICE_PATH names the path. NULL if not attached. Valid until the communicator
 * is freed. */
MUSTER_API const char* muster_device_path_reason(const muster_comm* comm);
/* How many GPUs this process sees; 0 without a driver. */
MUSTER_API int muster_device_count(void);
/* The GPUs for which this libmuster has kernels, such as "sm_80 sm_90 ptx_80". "" if built without nvcc; the path is
 * always "staged" then. Never free it.
 */
MUSTER_API const char* muster_device_kernels(void);

/* Collective: allocates device memory, which is not zeroed. If ranks share a GPU, allreduces between such buffers copy
 * nothing. The calling thread waits, also for the device. Ranks may ask for different sizes. */
MUSTER_API muster_code muster_device_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error);
/* Not collective. Call it when no operation uses the memory. With CUDA IPC the communicator keeps the memory. Once
 * all ranks have freed theirs, it uses the memory again for a buffer that is no larger on any rank. */
MUSTER_API muster_code muster_device_buffer_free(muster_comm* comm, void* data, muster_error** error);

/* The next functions do what their namesakes in muster.h do, on device memory. Each takes its place in `stream` at the
 * call. *request (NULL after an error) may be freed with muster_request_free() at any time. */
MUSTER_API muster_code muster_allreduce_on_stream(muster_comm* comm, const void* in, void* out, size_t count,
                                                  muster_dtype type, muster_op op, double prescale, double postscale,
                                                  void* stream, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_broadcast_on_stream(muster_comm* comm, void* data, size_t count, muster_dtype type,
                                                  int root, void* stream, muster_request** request,
                                                  muster_error** error);
MUSTER_API muster_code muster_allgather_on_stream(muster_comm* comm, const void* in, void* out, size_t count,
                                                  muster_dtype type, void* stream, muster_request** request,
                                                  muster_error** error);
MUSTER_API muster_code muster_reduce_scatter_on_stream(muster_comm* comm, const void* in, void* out, size_t count,
                                                       muster_dtype type, muster_op op, void* stream,
                                                       muster_request** request, muster_error** error);
/* Sends send_counts[r] elements to rank r and receives recv_counts[r] from it. Blocks lie one behind the other, as in
 * muster_alltoallv(). The counts may be freed when the call returns. */
MUSTER_API muster_code muster_alltoallv_on_stream(muster_comm* comm, const void* in, const size_t* send_counts,
                                                  void* out, const size_t* recv_counts, muster_dtype type, void* stream,
                                                  muster_request** request, muster_error** error);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_DEVICE_H_ */
