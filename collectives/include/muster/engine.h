/* libmuster's engine: named operations on tensors, submitted from any thread and in any order on each rank, as in
 * Horovod. An operation runs once all ranks have submitted it. Allreduces that are due together share one buffer.
 *
 * Errors: if ranks describe a tensor differently (kind, type, shape, reduction, root, scale), only that tensor fails,
 * on all ranks, with MUSTER_MISMATCH. After a rank has died or shut its engine down, everything fails.
 *
 * Threads, error objects and forked children are as in muster.h. Tensors belong to the caller, who must not change them
 * until their ticket is done.
 */
#ifndef MUSTER_ENGINE_H_
#define MUSTER_ENGINE_H_

#include <muster/muster.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_engine muster_engine;
typedef struct muster_ticket muster_ticket; /* the result of a submission */

typedef enum muster_kind {
  MUSTER_ALLREDUCE,
  MUSTER_ALLGATHER, /* first dimensions may differ */
  MUSTER_BROADCAST,
  MUSTER_REDUCESCATTER, /* rows in rank order; if they cannot be divided evenly, the first ranks get one more */
  MUSTER_ALLTOALL,      /* splits[size]: rows to each rank */
  MUSTER_BARRIER,
  MUSTER_JOIN,   /* this rank contributes nothing to reductions until all have joined */
  MUSTER_ADASUM, /* floats only, each tensor by itself; needs a power of two of ranks */
  /* Makes memory that the ranks of a host share, as muster_buffer_alloc() does: one tensor of uint8 whose `in` and
   * `out` are NULL, with the same shape on all ranks. It is the ticket's output 0, and lives until the ticket is freed,
   * also after the engine. Allreduces in place of tensors in it copy nothing, if they are submitted with `alone`. */
  MUSTER_BUFFER
} muster_kind;

/* The type in which float32 is sent. */
typedef enum muster_wire { MUSTER_WIRE_SAME, MUSTER_WIRE_FLOAT16, MUSTER_WIRE_BFLOAT16 } muster_wire;

typedef struct muster_tensor {
  const void* in; /* if the tensor is empty and on a GPU: any memory of that GPU, or NULL */
  void* out;      /* for allreduce, adasum and broadcast: has the same shape and may be `in`; otherwise see on_gpu */
  const int64_t* shape; /* [dimensions] */
  int dimensions;
  muster_dtype type;
} muster_tensor;

typedef struct muster_submission {
  size_t size;      /* sizeof(muster_submission): later versions append fields */
  const char* name; /* the same on all ranks; may be used again when the ticket is done */
  muster_kind kind;
  muster_op op; /* for allreduce and reducescatter */
  int root;     /* for broadcast: a rank of the communicator */
  int count;    /* of tensors; several form one unit, which begins once all ranks have submitted it */
  const muster_tensor* tensors;
  double prescale, postscale; /* for reductions, as in muster_allreduce_scaled() */
  const int64_t* splits;      /* for alltoall: [size of the communicator] */
  /* 1 if the tensors are GPU memory; not allowed for adasum. All submissions of a rank must use the same GPU. `stream`
   * is a cudaStream_t of that GPU that is not being captured. Its work at the time of the submission computes the
   * tensors. When the ticket is done, results are complete for all streams. (Appended later: without `on_gpu` and
   * `stream`, `size` ends before them.)
   *
   * Results of an allgather, alltoall or reducescatter are on the GPU, too. The result goes to the tensor's `out` if
   * that is not NULL and the result has the expected number of rows. The expected number is the one that
   * results if all ranks submit tensors like this one: `size` times its rows for an allgather, its rows for an
   * alltoall. A reducescatter always has it. Otherwise the result goes where `allocate` says. */
  int on_gpu;
  void* stream;
  /* For an allreduce of float32 on a GPU. Tensors are scaled by `prescale`, cast when they are packed, and cast back
   * when they are unpacked. Without kernels, as on a path that must be "staged", tensors are sent as float32. All ranks
   * must give the same value. (Appended later.) */
  muster_wire wire;
  /* Returns GPU memory of `bytes` bytes (not 0) for result `index`, which no stream uses. A thread of libmuster calls
   * it before the ticket is done. If it returns NULL, the engine ends. If `allocate` itself is NULL, the ticket owns
   * the results, and freeing them waits for the GPU. (Appended later.) */
  void* (*allocate)(void* context, int index, size_t bytes);
  void* context;
  /* For an allreduce: 1 if its tensors are not to be packed with others, each being large enough. All ranks must give
   * the same value. (Appended later.) */
  int alone;
} muster_submission;

/* Collective over the ranks of `comm`; the engine does not use `comm` afterwards. Its settings come from the HOROVOD_*
 * variables of docs/environment.md. Only an engine with `writes_files` uses those that name files (the timeline, the
 * autotuner's log). Only one engine of a process should have `writes_files` set. */
MUSTER_API muster_code muster_engine_start(muster_comm* comm, int writes_files, muster_engine** engine,
                                           muster_error** error);
/* Announces the shutdown to the other ranks. Tensors that are not done fail on all ranks. Waits until the other ranks
 * have received the announcement, for at most `seconds`. */
MUSTER_API void muster_engine_shut_down(muster_engine* engine, double seconds);
/* Shuts the engine down unless it has shut down. Tickets stay valid. NULL is allowed. */
MUSTER_API void muster_engine_free(muster_engine* engine);

/* MUSTER_INVALID if the submission is invalid or its name is in use. muster_ticket_wait() returns all other errors.
 * Everything that `submission` points to, except the tensors' data, may be freed when the call returns. */
MUSTER_API muster_code muster_engine_submit(muster_engine* engine, const muster_submission* submission,
                                            muster_ticket** ticket, muster_error** error);

/* Starts a timeline in Chrome's trace format, in place of a running one. `marks_turns` adds a mark for every turn of
 * negotiation. NULL ends the timeline. Only the call on rank 0 has an effect. */
MUSTER_API muster_code muster_engine_timeline(muster_engine* engine, const char* path, int marks_turns,
                                              muster_error** error);

/* Waits until the ticket is done, but for at most `seconds`. Negative seconds mean no limit. Returns MUSTER_TIMEOUT if
 * it is not done by then, and sets no error. */
MUSTER_API muster_code muster_ticket_wait(muster_ticket* ticket, double seconds, muster_error** error);
MUSTER_API int muster_ticket_is_done(muster_ticket* ticket);

/* Tensor `index` of a finished allgather, alltoall, reducescatter or buffer. The ticket owns the data, unless it is the
 * caller's memory. */
typedef struct muster_output {
  const void* data;
  const int64_t* shape;
  int dimensions;
  muster_dtype type;
} muster_output;
/* MUSTER_INVALID if there is no such output. */
MUSTER_API muster_code muster_ticket_output(const muster_ticket* ticket, int index, muster_output* output);
/* For a finished alltoall: rows from each rank, [size of the communicator]. The ticket owns them. */
MUSTER_API const int64_t* muster_ticket_received_splits(const muster_ticket* ticket);
/* For a finished join: the last rank that joined. */
MUSTER_API int muster_ticket_last_joined(const muster_ticket* ticket);
/* Frees a ticket. A running operation goes on and uses its tensors. A GPU result that the ticket would own is then
 * freed with the engine. NULL is allowed. */
MUSTER_API void muster_ticket_free(muster_ticket* ticket);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_ENGINE_H_ */
