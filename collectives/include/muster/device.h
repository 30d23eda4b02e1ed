/* libmuster on memory of GPUs (CUDA), in the order of the caller's streams.
 *
 * The CUDA driver and NCCL are loaded when muster_device_attach() is called: the same libmuster serves hosts with and
 * without GPUs. Ranks with a GPU each use NCCL; ranks of a host that share a GPU, or lack NCCL, reduce what CUDA IPC
 * maps from the others; all else goes through pinned memory of the host. MUSTER_DEVICE_PATH names one of the three.
 *
 * What is asynchronous: a call enqueues and returns, the host waits for nothing. The operation begins on the device
 * when `stream` (a cudaStream_t, of the attached GPU) has come to this place, and what is put on `stream` afterwards
 * waits until it is done. Buffers are to be left alone until then. A thread of libmuster's meets the other ranks;
 * operations of one communicator run one at a time, in the order of the calls, together with all its other collectives.
 *
 * When errors show: by muster_wait() on the request. A stream whose operation has failed goes on; the contents of
 * outputs are undefined then, so a program that must not use them asks the request first. A rank that dies ends the
 * communicator as everywhere, and holds no stream.
 *
 * While an operation is under way `stream` waits on the device for something that CUDA does not see. So the program is
 * not to wait for all of the GPU's streams in a thread that the operation depends on, on any rank. This hides in the
 * first launch of a kernel, which may load it: launch yours once before, or set CUDA_MODULE_LOADING=EAGER; libmuster's
 * have run when muster_device_attach() returns, and so have NCCL's but for an alltoall, which connects all pairs of
 * ranks the first time: start with one where you use it. It hides in freeing memory, too: muster_device_buffer_free()
 * is not to be called while other threads start operations of the same communicator. Streams of one priority share GPU
 * queues (CUDA_DEVICE_MAX_CONNECTIONS of them, 8 by default), and one that shares its queue with `stream` may wait with
 * it. Libmuster's have the greatest priority; the caller's do better with another one, or with more queues.
 *
 * CUDA graphs: calls on a stream that is being captured are MUSTER_INVALID, and leave the capture as it is. Captures of
 * other streams go on whatever libmuster's threads do. Threads, errors, ownership: as in muster.h.
 */
#ifndef MUSTER_DEVICE_H_
#define MUSTER_DEVICE_H_

#include <muster/muster.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Collective. From here the functions below may be called with memory of GPU `device`, this rank's, as CUDA numbers
 * this process's devices; once for a communicator. One that muster_comm_split() has made of a communicator that goes by
 * NCCL, on the same GPUs, has its part of that: nothing is formed anew. MUSTER_MISMATCH or MUSTER_INVALID, on all
 * ranks: one of them has no driver or no such GPU, or MUSTER_DEVICE_PATH cannot be taken; the communicator is as
 * before. */
MUSTER_API muster_code muster_device_attach(muster_comm* comm, int device, muster_error** error);
/* "nccl", "ipc" or "staged"; NULL: not attached. Never freed. */
MUSTER_API const char* muster_device_path(const muster_comm* comm);
/* Why it is none before it in that list, and why this rank has no kernels, if it has none: "not nccl: ranks share a
 * GPU"; "": there is nothing to say, as where MUSTER_DEVICE_PATH names it; NULL: not attached. Valid until the
 * communicator is freed. */
MUSTER_API const char* muster_device_path_reason(const muster_comm* comm);
/* How many GPUs this process sees; 0 where there is no driver. */
MUSTER_API int muster_device_count(void);
/* For which GPUs this libmuster has kernels: "sm_80 sm_90 ptx_80"; "": built without nvcc, always staged. Never freed.
 */
MUSTER_API const char* muster_device_kernels(void);

/* Collective: device memory, not zeroed. Where ranks share a GPU, allreduces between such buffers copy nothing. The
 * host waits, also for the device. Ranks may ask for different sizes. */
MUSTER_API muster_code muster_device_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error);
/* When no operation uses it. Not collective. By CUDA IPC the memory stays the communicator's, for a later buffer that
 * is no larger on any rank, once all ranks have freed theirs. */
MUSTER_API muster_code muster_device_buffer_free(muster_comm* comm, void* data, muster_error** error);

/* As their namesakes in muster.h, on device memory, at the place in `stream` where the call is made. *request (NULL
 * after an error) is freed with muster_request_free(), at any time. */
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
/* send_counts[r] elements to rank r, recv_counts[r] from it, blocks one behind the other, as in muster_alltoallv(). The
 * counts may go when the call returns. */
MUSTER_API muster_code muster_alltoallv_on_stream(muster_comm* comm, const void* in, const size_t* send_counts,
                                                  void* out, const size_t* recv_counts, muster_dtype type, void* stream,
                                                  muster_request** request, muster_error** error);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_DEVICE_H_ */
