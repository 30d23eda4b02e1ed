/* libmuster: collectives between the ranks of a job. C ABI, symbol version MUSTER_1.
 *
 * A program joins its job with muster_init() and calls collectives on communicators. Under hvdrun nothing has to be
 * configured; without a launcher see MUSTER_RENDEZVOUS in docs/collectives.md.
 *
 * Order: every rank of a communicator makes the same calls in the same order; with asynchronous ones, in the order in
 * which they were started. A rank that calls something else (operation, type, reduction, count, root, scale) makes the
 * call fail on all ranks with MUSTER_MISMATCH. Sends and receives are in no order with collectives: see there.
 *
 * Threads: every function may be called from any thread. Collectives of one communicator run one at a time: threads
 * that call at once must not care about the order. Sends and receives run beside them. Communicators are independent of
 * each other. A request is waited for by any number of threads and freed by one, a communicator freed when no other
 * thread uses it. In a child that was forked only the functions that free may be called, and do nothing.
 *
 * Errors: functions return MUSTER_OK or another code and, where `error` is not NULL and the call fails, put a new
 * muster_error there, which the caller frees. After a failed collective its communicator has ended: every later call on
 * it fails in the same way, and the contents of outputs (and of inputs, in place) are undefined. The ranks that are
 * left can make a new communicator with muster_comm_group() or muster_comm_shrink().
 *
 * Waiting: a call returns when this rank's part is done, or with an error after `timeout_seconds` (muster_options)
 * without progress, also where it was only started; news of a rank that has ended come sooner.
 *
 * Ownership: buffers belong to the caller; those of a blocking call are its own again when it returns. `in` and `out`
 * are the same pointer ("in place", where that is said) or do not overlap. What muster_*() gives out is freed by the
 * function that is named beside it. Counts are in elements, at most 2^44; NULL is a buffer of no elements. Roots, `to`
 * and `from` are ranks of the communicator. Results are the same in every bit on all ranks, and from run to run for the
 * same ranks on the same hosts.
 */
#ifndef MUSTER_MUSTER_H_
#define MUSTER_MUSTER_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define MUSTER_API __attribute__((visibility("default")))
#else
#define MUSTER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum muster_code {
  MUSTER_OK = 0,
  MUSTER_INVALID = 3,   /* an argument, or a setting of the environment */
  MUSTER_TIMEOUT = 4,   /* a rank did not come within the deadline */
  MUSTER_NO_MEMORY = 8, /* memory, threads, descriptors */
  MUSTER_MISMATCH = 9,  /* ranks called different things, or are set differently */
  MUSTER_FAILED = 10,   /* another rank gave up */
  MUSTER_INTERNAL = 13,
  MUSTER_RANK_DIED = 14, /* a rank has ended, or its host is gone */
  MUSTER_DENIED = 16     /* a peer did not know the job's secret, or what it sent encrypted was changed on the way */
} muster_code;

typedef enum muster_dtype {
  MUSTER_FLOAT16,
  MUSTER_BFLOAT16,
  MUSTER_FLOAT32,
  MUSTER_FLOAT64,
  MUSTER_INT8,
  MUSTER_UINT8,
  MUSTER_INT16,
  MUSTER_INT32,
  MUSTER_INT64,
  MUSTER_BOOL /* one byte, 0 or 1 */
} muster_dtype;

/* 16-bit floats are accumulated in float32 and rounded once on a host and once between hosts. Integers wrap; their
 * average is the sum divided towards zero. Of MUSTER_BOOL sum and max are "or", product and min are "and"; there is no
 * average. */
typedef enum muster_op { MUSTER_SUM, MUSTER_AVG, MUSTER_MIN, MUSTER_MAX, MUSTER_PROD } muster_op;

typedef struct muster_world muster_world;     /* this process in its job */
typedef struct muster_comm muster_comm;       /* a group of ranks */
typedef struct muster_request muster_request; /* an operation that runs */
typedef struct muster_error muster_error;

/* ---- errors ---- */

/* One sentence: what failed, where, what to do. Valid until the error is freed. */
MUSTER_API const char* muster_error_message(const muster_error* error);
MUSTER_API muster_code muster_error_code(const muster_error* error);
/* The rank of the world whose end or mistake it was, -1: none; its host as the user named it, "": none. */
MUSTER_API int muster_error_rank(const muster_error* error);
MUSTER_API const char* muster_error_host(const muster_error* error);
MUSTER_API void muster_error_free(muster_error* error); /* NULL is allowed */
MUSTER_API const char* muster_version(void);            /* "0.1.0" */
MUSTER_API size_t muster_dtype_size(muster_dtype type); /* bytes; 0: no such type */

/* ---- the world ---- */

typedef struct muster_options {
  size_t size;            /* sizeof(muster_options): later versions append fields */
  double timeout_seconds; /* of one operation without progress; 0: 30 s, or MUSTER_OPERATION_TIMEOUT */
  double join_seconds;    /* until all ranks have come; 0: 120 s */
} muster_options;

/* Joins the job, and returns when all its ranks have. `options` may be NULL. One world at a time; all ranks leave and
 * join the same number of times. */
MUSTER_API muster_code muster_init(const muster_options* options, muster_world** world, muster_error** error);
/* Leaves. Communicators and requests made from it have to be freed before. NULL is allowed. */
MUSTER_API void muster_finalize(muster_world* world);
/* The communicator of all ranks; belongs to the world, is not freed. */
MUSTER_API muster_comm* muster_world_comm(muster_world* world);

/* ---- communicators ---- */

MUSTER_API int muster_comm_rank(const muster_comm* comm);
MUSTER_API int muster_comm_size(const muster_comm* comm);
MUSTER_API int muster_comm_local_rank(const muster_comm* comm); /* among its ranks of this host */
MUSTER_API int muster_comm_local_size(const muster_comm* comm);
MUSTER_API int muster_comm_hosts(const muster_comm* comm);
MUSTER_API int muster_comm_world_rank(const muster_comm* comm, int rank); /* -1: there is no such rank */

/* Collective. Ranks that give the same color form a communicator, ordered by key, then by rank; a negative color: none
 * for this rank (*made is NULL). */
MUSTER_API muster_code muster_comm_split(muster_comm* comm, int color, int key, muster_comm** made,
                                         muster_error** error);
/* Called only by the `count` ranks of `comm` that are in `ranks`, with the same list. Works on a communicator that has
 * ended. */
MUSTER_API muster_code muster_comm_group(muster_comm* comm, const int* ranks, int count, muster_comm** made,
                                         muster_error** error);
/* muster_comm_group() of those ranks that have not ended. All that are left call it, and agree on who they are; those
 * that are lost meanwhile are left out, too. An error comes on all ranks, and it may be called again. */
MUSTER_API muster_code muster_comm_shrink(muster_comm* comm, muster_comm** made, muster_error** error);
/* Waits for operations that were started; where requests are left and it is not attached to a GPU they go on instead.
 * Of one that is attached by NCCL or CUDA IPC, waits also for the other ranks to free it. For what they keep, this rank
 * waits two seconds in all, however many it frees (some ms each from then on). NULL is allowed. */
MUSTER_API void muster_comm_free(muster_comm* comm);

/* ---- memory that ranks of a host share ---- */

/* Collective: `bytes` for this rank, zeroed, that all ranks of this host have mapped. Collectives between buffers of
 * this kind copy nothing. Ranks may ask for different sizes. */
MUSTER_API muster_code muster_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error);
/* When no operation uses it. Not collective. */
MUSTER_API muster_code muster_buffer_free(muster_comm* comm, void* data, muster_error** error);

/* ---- collectives ---- */

/* Returns when all ranks have called it. */
MUSTER_API muster_code muster_barrier(muster_comm* comm, muster_error** error);
/* in, out: count elements. In place allowed. */
MUSTER_API muster_code muster_allreduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                        muster_op op, muster_error** error);
/* Every input is multiplied by `prescale` and the result by `postscale`. */
MUSTER_API muster_code muster_allreduce_scaled(muster_comm* comm, const void* in, void* out, size_t count,
                                               muster_dtype type, muster_op op, double prescale, double postscale,
                                               muster_error** error);
/* in: count elements; out: count elements on the root, unused elsewhere. In place allowed on the root. */
MUSTER_API muster_code muster_reduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                     muster_op op, int root, muster_error** error);
/* in: size * count elements; out: count elements, this rank's part of the reduction. */
MUSTER_API muster_code muster_reduce_scatter(muster_comm* comm, const void* in, void* out, size_t count,
                                             muster_dtype type, muster_op op, muster_error** error);
/* counts[size], the same on all ranks: rank r gets counts[r] elements; in holds their sum. */
MUSTER_API muster_code muster_reduce_scatterv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                              muster_dtype type, muster_op op, muster_error** error);
/* data: count elements, the root's on all ranks in the end. */
MUSTER_API muster_code muster_broadcast(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                                        muster_error** error);
/* in: count elements; out: size * count, in rank order. In place: in == out + rank * count. */
MUSTER_API muster_code muster_allgather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                        muster_error** error);
/* counts[size], the same on all ranks; in: counts[rank] elements; out holds their sum, one block behind the other. In
 * place: in is this rank's block of out. */
MUSTER_API muster_code muster_allgatherv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                         muster_dtype type, muster_error** error);
/* in: count elements; out: size * count on the root, in rank order, unused elsewhere. */
MUSTER_API muster_code muster_gather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                     int root, muster_error** error);
/* in: size * count elements on the root, unused elsewhere; out: count. */
MUSTER_API muster_code muster_scatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                      int root, muster_error** error);
/* in, out: size * count elements, block r goes to and comes from rank r. */
MUSTER_API muster_code muster_alltoall(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                       muster_error** error);
/* send_counts[r] elements to rank r, recv_counts[r] from it, blocks one behind the other. What a rank sends and what
 * its peer expects must agree: MUSTER_MISMATCH. */
MUSTER_API muster_code muster_alltoallv(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                                        const size_t* recv_counts, muster_dtype type, muster_error** error);

/* ---- from one rank to another ---- */

/* Only the two ranks take part. Between them messages arrive in the order in which they were sent, and the two calls
 * have to agree: another count, type or tag (any number from 0) is a MUSTER_MISMATCH that names both, for the receiver
 * and then for all ranks of the communicator. Sends and receives wait for no collective, and no collective for them.
 *
 * A send returns when all of it is on its way: a small one at once, a large one (some 100 KB) when the receiver has
 * called. So ranks that send large messages to each other start one side: muster_isend() or muster_irecv(). A rank that
 * has ended, or left in good order, is named by the error: MUSTER_RANK_DIED. What it has sent before can be received.
 */
MUSTER_API muster_code muster_send(muster_comm* comm, const void* data, size_t count, muster_dtype type, int to,
                                   int tag, muster_error** error);
MUSTER_API muster_code muster_recv(muster_comm* comm, void* data, size_t count, muster_dtype type, int from, int tag,
                                   muster_error** error);

/* ---- without waiting ---- */

/* As above; *request (NULL after an error) is freed with muster_request_free(). Buffers stay untouched until the
 * request is done; arrays of counts may go when the call returns. An argument that is wrong is told here or by
 * muster_wait(). */
MUSTER_API muster_code muster_ibarrier(muster_comm* comm, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_iallreduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                         muster_op op, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_iallreduce_scaled(muster_comm* comm, const void* in, void* out, size_t count,
                                                muster_dtype type, muster_op op, double prescale, double postscale,
                                                muster_request** request, muster_error** error);
MUSTER_API muster_code muster_ireduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                      muster_op op, int root, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_ireduce_scatter(muster_comm* comm, const void* in, void* out, size_t count,
                                              muster_dtype type, muster_op op, muster_request** request,
                                              muster_error** error);
MUSTER_API muster_code muster_ireduce_scatterv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                               muster_dtype type, muster_op op, muster_request** request,
                                               muster_error** error);
MUSTER_API muster_code muster_ibroadcast(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                                         muster_request** request, muster_error** error);
MUSTER_API muster_code muster_iallgather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                         muster_request** request, muster_error** error);
MUSTER_API muster_code muster_iallgatherv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                          muster_dtype type, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_igather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                      int root, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_iscatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                       int root, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_ialltoall(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                        muster_request** request, muster_error** error);
MUSTER_API muster_code muster_ialltoallv(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                                         const size_t* recv_counts, muster_dtype type, muster_request** request,
                                         muster_error** error);
MUSTER_API muster_code muster_isend(muster_comm* comm, const void* data, size_t count, muster_dtype type, int to,
                                    int tag, muster_request** request, muster_error** error);
MUSTER_API muster_code muster_irecv(muster_comm* comm, void* data, size_t count, muster_dtype type, int from, int tag,
                                    muster_request** request, muster_error** error);

/* *done: 0 or 1. The operation's own error comes from muster_wait(). */
MUSTER_API muster_code muster_test(muster_request* request, int* done);
/* The operation's result, as often as it is asked for. MUSTER_TIMEOUT without an error: not done within `seconds`, and
 * still running; negative seconds: no limit but the communicator's own. */
MUSTER_API muster_code muster_wait(muster_request* request, double seconds, muster_error** error);
/* Does not cancel: an operation that runs goes on, with its buffers. NULL is allowed. */
MUSTER_API void muster_request_free(muster_request* request);

/* ---- for benchmarks ---- */

/* The algorithm that this rank's last allreduce took, as in `muster_perf`; a string that is never freed. */
MUSTER_API const char* muster_last_algorithm(const muster_comm* comm);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_MUSTER_H_ */
