/* libmuster: collectives between the ranks of a job. C ABI, symbol version MUSTER_1.
 *
 * A program joins its job with muster_init() and calls collectives on communicators. Under hvdrun it needs no
 * configuration. Without a launcher, see MUSTER_RENDEZVOUS in docs/collectives.md.
 *
 * Order: every rank of a communicator must make the same calls in the same order. Asynchronous calls count in the order
 * in which they are started. If a rank calls something else (operation, type, reduction, count, root, scale), the call
 * fails on all ranks with MUSTER_MISMATCH. Sends and receives are not ordered with collectives; see below.
 *
 * Threads: every function may be called from any thread. Collectives of one communicator run one at a time. If threads
 * call at once, the order of their calls is undefined. Sends and receives run beside collectives. Communicators are
 * independent of each other. Any number of threads may wait for a request; one of them must free it. Free a
 * communicator only when no other thread uses it. A forked child may call only the functions that free, and they do
 * nothing there.
 *
 * Errors: functions return MUSTER_OK or another code. If the call fails and `error` is not NULL, they put a new
 * muster_error there, which the caller must free. A failed collective ends its communicator: every later call on it
 * fails in the same way. The contents of outputs, and of in-place inputs, are undefined then. The surviving ranks can
 * make a new communicator with muster_comm_group() or muster_comm_shrink().
 *
 * Waiting: a call returns when this rank's part is done. It fails after `timeout_seconds` (muster_options) without
 * progress; so does an operation that was only started. A rank that has ended is reported sooner.
 *
 * Ownership: buffers belong to the caller. A blocking call no longer uses them when it returns. `in` and `out` must be
 * the same pointer ("in place", where allowed) or must not overlap. Each object that muster_*() returns has its free
 * function beside it.
 *
 * Counts are in elements, at most 2^44. NULL is valid for a buffer without elements. Roots, `to` and `from` are ranks
 * of the communicator. Results are bit-identical on all ranks, and from run to run for the same ranks on the same
 * hosts.
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
  MUSTER_INVALID = 3,   /* an argument or a setting of the environment is invalid */
  MUSTER_TIMEOUT = 4,   /* a rank did not arrive within the deadline */
  MUSTER_NO_MEMORY = 8, /* no memory, threads or descriptors are left */
  MUSTER_MISMATCH = 9,  /* ranks called different operations or have different settings */
  MUSTER_FAILED = 10,   /* another rank failed or shut down */
  MUSTER_INTERNAL = 13,
  MUSTER_RANK_DIED = 14, /* a rank has ended or its host is lost */
  MUSTER_DENIED = 16     /* a peer did not know the job's secret, or its encrypted data was changed in transit */
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

/* 16-bit floats are accumulated in float32. They are rounded once on a host and once between hosts. Integers wrap;
 * their average is the sum divided with truncation towards zero. For MUSTER_BOOL, sum and max are "or", product and min
 * are "and"; it has no average. */
typedef enum muster_op { MUSTER_SUM, MUSTER_AVG, MUSTER_MIN, MUSTER_MAX, MUSTER_PROD } muster_op;

typedef struct muster_world muster_world;     /* this process in its job */
typedef struct muster_comm muster_comm;       /* a group of ranks */
typedef struct muster_request muster_request; /* an operation in progress */
typedef struct muster_error muster_error;

/* ---- errors ---- */

/* One sentence: what failed, where, and what to do. Valid until the error is freed. */
MUSTER_API const char* muster_error_message(const muster_error* error);
MUSTER_API muster_code muster_error_code(const muster_error* error);
/* The world's rank that ended or made the mistake; -1 if none. muster_error_host() returns that rank's host as the
 * user named it; "" if none. */
MUSTER_API int muster_error_rank(const muster_error* error);
MUSTER_API const char* muster_error_host(const muster_error* error);
MUSTER_API void muster_error_free(muster_error* error); /* NULL is allowed */
MUSTER_API const char* muster_version(void);            /* "0.1.0" */
MUSTER_API size_t muster_dtype_size(muster_dtype type); /* bytes; 0 if the type is unknown */

/* ---- the world ---- */

/* Where the ranks of a world meet, for programs that know a store of texts which all ranks reach. Rank 0 publishes a
 * text there, and the others look for it. The text has a secret that admits to the world, so only the ranks may read
 * the store. The functions are called from within muster_init(). */
typedef struct muster_meeting {
  int rank; /* of this process */
  int size; /* number of ranks */
  void* context;
  /* Stores the text in place of an earlier one, on rank 0. Returns 0, or another number if that failed. */
  int (*publish)(void* context, const char* text, size_t bytes);
  /* Copies the text to `text`, which has `room` bytes (8192), and returns its length. 0: nothing is stored yet, and the
   * function will be called again. A negative number: muster_init() fails. */
  long (*find)(void* context, char* text, size_t room);
  /* Returns 0 as long as this world can still form. Otherwise muster_init() fails soon. May be NULL. */
  int (*is_over)(void* context);
} muster_meeting;

typedef struct muster_options {
  size_t size;                   /* sizeof(muster_options): later versions append fields */
  double timeout_seconds;        /* time of one operation without progress; 0 means MUSTER_OPERATION_TIMEOUT, or 30 s */
  double join_seconds;           /* time until all ranks have joined; 0 means 120 s */
  const muster_meeting* meeting; /* NULL: the environment says where the ranks meet */
} muster_options;

/* Joins the job and returns when all its ranks have joined. `options` may be NULL. A process has one world at a time.
 * All ranks must join and leave the same number of times. */
MUSTER_API muster_code muster_init(const muster_options* options, muster_world** world, muster_error** error);
/* Leaves the job. Free the communicators and requests of the world before. NULL is allowed. */
MUSTER_API void muster_finalize(muster_world* world);
/* Reports that this rank of the world has failed, if the program knows it before libmuster. Only this process learns
 * it, so call it in every process. `cause` is text such as "was lost with its host n3"; NULL is allowed. Operations
 * with the rank end with MUSTER_RANK_DIED and this cause. Any thread may call it while the world exists. Does nothing
 * for the caller's own rank, for ranks out of range, and for ranks that have ended. */
MUSTER_API void muster_world_rank_failed(muster_world* world, int rank, const char* cause);
/* Counts a step of the program, so that the launcher sees that this rank goes on, and which rank is late. `step` is its
 * number (from 0; the same number on all ranks means the same step), or -1 if the ranks only count. Needs no world.
 * Does nothing without a launcher. Any thread may call it; it costs less than a microsecond. */
MUSTER_API void muster_heartbeat(int64_t step);
/* The communicator of all ranks. It belongs to the world; do not free it. */
MUSTER_API muster_comm* muster_world_comm(muster_world* world);

/* ---- communicators ---- */

MUSTER_API int muster_comm_rank(const muster_comm* comm);
MUSTER_API int muster_comm_size(const muster_comm* comm);
MUSTER_API int muster_comm_local_rank(const muster_comm* comm); /* among the ranks of this host */
MUSTER_API int muster_comm_local_size(const muster_comm* comm);
MUSTER_API int muster_comm_hosts(const muster_comm* comm);
MUSTER_API int muster_comm_world_rank(const muster_comm* comm, int rank); /* -1 if `rank` is out of range */

/* Collective. Ranks with the same color form one communicator, ordered by key, then by rank. A rank with a negative
 * color gets none (*made is NULL). */
MUSTER_API muster_code muster_comm_split(muster_comm* comm, int color, int key, muster_comm** made,
                                         muster_error** error);
/* Only the `count` ranks in `ranks`, which are ranks of `comm`, call this, all with the same list. It also works after
 * `comm` has ended. */
MUSTER_API muster_code muster_comm_group(muster_comm* comm, const int* ranks, int count, muster_comm** made,
                                         muster_error** error);
/* Does muster_comm_group() of the ranks that have not ended. All surviving ranks must call it, and they agree on which
 * ranks survive. Ranks lost during the call are left out, too. If the call fails, it fails on all ranks, and they may
 * call it again. */
MUSTER_API muster_code muster_comm_shrink(muster_comm* comm, muster_comm** made, muster_error** error);
/* Waits for operations that were started. If requests are not freed yet and `comm` is not attached to a GPU, these
 * operations go on instead. If `comm` is attached by NCCL or CUDA IPC, the call also waits for the other ranks to
 * free theirs. If they do not, all such waits of this rank together take two seconds, and later ones some ms each.
 * NULL is allowed. */
MUSTER_API void muster_comm_free(muster_comm* comm);

/* ---- memory that ranks of a host share ---- */

/* Collective: allocates `bytes` of zeroed memory for this rank, which all ranks of this host have mapped. Collectives
 * between such buffers copy nothing. Ranks may ask for different sizes. */
MUSTER_API muster_code muster_buffer_alloc(muster_comm* comm, size_t bytes, void** data, muster_error** error);
/* Not collective. Call it when no operation uses the memory. */
MUSTER_API muster_code muster_buffer_free(muster_comm* comm, void* data, muster_error** error);

/* ---- collectives ---- */

/* Returns when all ranks have called it. */
MUSTER_API muster_code muster_barrier(muster_comm* comm, muster_error** error);
/* in, out: count elements. In place is allowed. */
MUSTER_API muster_code muster_allreduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                        muster_op op, muster_error** error);
/* Every input is multiplied by `prescale` and the result by `postscale`. */
MUSTER_API muster_code muster_allreduce_scaled(muster_comm* comm, const void* in, void* out, size_t count,
                                               muster_dtype type, muster_op op, double prescale, double postscale,
                                               muster_error** error);
/* in: count elements; out: count elements on the root, unused elsewhere. In place is allowed on the root. */
MUSTER_API muster_code muster_reduce(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                     muster_op op, int root, muster_error** error);
/* in: size * count elements; out: count elements, this rank's part of the reduction. */
MUSTER_API muster_code muster_reduce_scatter(muster_comm* comm, const void* in, void* out, size_t count,
                                             muster_dtype type, muster_op op, muster_error** error);
/* counts[size], the same on all ranks. Rank r gets counts[r] elements; in holds the sum of the counts. */
MUSTER_API muster_code muster_reduce_scatterv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                              muster_dtype type, muster_op op, muster_error** error);
/* data: count elements. All ranks end with the root's data. */
MUSTER_API muster_code muster_broadcast(muster_comm* comm, void* data, size_t count, muster_dtype type, int root,
                                        muster_error** error);
/* in: count elements; out: size * count, in rank order. In place: in == out + rank * count. */
MUSTER_API muster_code muster_allgather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                        muster_error** error);
/* counts[size], the same on all ranks. in: counts[rank] elements. out: the sum of the counts, one block behind the
 * other. In place: in is this rank's block of out. */
MUSTER_API muster_code muster_allgatherv(muster_comm* comm, const void* in, void* out, const size_t* counts,
                                         muster_dtype type, muster_error** error);
/* in: count elements; out: size * count on the root, in rank order, unused elsewhere. */
MUSTER_API muster_code muster_gather(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                     int root, muster_error** error);
/* in: size * count elements on the root, unused elsewhere; out: count. */
MUSTER_API muster_code muster_scatter(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                      int root, muster_error** error);
/* in, out: size * count elements. Block r goes to rank r and comes from rank r. */
MUSTER_API muster_code muster_alltoall(muster_comm* comm, const void* in, void* out, size_t count, muster_dtype type,
                                       muster_error** error);
/* Sends send_counts[r] elements to rank r and receives recv_counts[r] from it. Blocks lie one behind the other.
 * MUSTER_MISMATCH if a rank sends another number than its peer expects. */
MUSTER_API muster_code muster_alltoallv(muster_comm* comm, const void* in, const size_t* send_counts, void* out,
                                        const size_t* recv_counts, muster_dtype type, muster_error** error);

/* ---- from one rank to another ---- */

/* Only the two ranks take part. Messages between them arrive in the order of the sends. The two calls must agree in
 * count, type and tag (any number from 0). A difference is a MUSTER_MISMATCH that names both values, first for the
 * receiver and then for all ranks of the communicator. Sends and receives do not wait for collectives, nor collectives
 * for them.
 *
 * A send returns when its bytes are on their way. A small one returns at once; a large one (some 100 KB) when the
 * receiver has called. So ranks that send large messages to each other must start one side with muster_isend() or
 * muster_irecv(). If the peer has ended or left, MUSTER_RANK_DIED names it. Messages that it sent before can still be
 * received.
 */
MUSTER_API muster_code muster_send(muster_comm* comm, const void* data, size_t count, muster_dtype type, int to,
                                   int tag, muster_error** error);
MUSTER_API muster_code muster_recv(muster_comm* comm, void* data, size_t count, muster_dtype type, int from, int tag,
                                   muster_error** error);

/* ---- without waiting ---- */

/* The next calls do the same as those above, without waiting. *request (NULL after an error) must be freed with
 * muster_request_free(). Do not touch the buffers until the request is done. Arrays of counts may be freed when the
 * call returns. An invalid argument is reported here or by muster_wait(). */
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

/* *done becomes 0 or 1. muster_wait() returns the operation's own error. */
MUSTER_API muster_code muster_test(muster_request* request, int* done);
/* Waits for the operation and returns its result. May be called again. Returns MUSTER_TIMEOUT if the operation still
 * runs after `seconds`, and sets no error. Negative seconds mean no limit but the communicator's own. */
MUSTER_API muster_code muster_wait(muster_request* request, double seconds, muster_error** error);
/* Does not cancel: a running operation goes on and uses its buffers. NULL is allowed. */
MUSTER_API void muster_request_free(muster_request* request);

/* ---- for benchmarks ---- */

/* The algorithm of this rank's last allreduce, as in `muster_perf`. Never free the string. */
MUSTER_API const char* muster_last_algorithm(const muster_comm* comm);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_MUSTER_H_ */
