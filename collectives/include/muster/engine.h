/* libmuster's engine: named operations on tensors, submitted from any thread and in any order on each rank, as users of
 * Horovod know them. What all ranks have submitted is done; allreduces that are due together go through one buffer.
 *
 * A tensor that ranks describe differently (kind, type, shape, reduction, root, scale) fails on all of them with
 * MUSTER_MISMATCH, and nothing else does. After a rank has died, or any has shut its engine down, everything fails.
 *
 * Threads, errors and forked children: as in muster.h. Tensors belong to the caller, and stay as they are until their
 * ticket is done.
 */
#ifndef MUSTER_ENGINE_H_
#define MUSTER_ENGINE_H_

#include <muster/muster.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct muster_engine muster_engine;
typedef struct muster_ticket muster_ticket; /* what a submission becomes */

typedef enum muster_kind {
  MUSTER_ALLREDUCE,
  MUSTER_ALLGATHER, /* first dimensions may differ */
  MUSTER_BROADCAST,
  MUSTER_REDUCESCATTER, /* rows in order, the first ranks get one more where they do not come out even */
  MUSTER_ALLTOALL,      /* splits[size]: rows to each rank */
  MUSTER_BARRIER,
  MUSTER_JOIN,  /* this rank contributes nothing to reductions until all have joined */
  MUSTER_ADASUM /* of floats, each tensor by itself; a power of two of ranks */
} muster_kind;

/* As what float32 travels. */
typedef enum muster_wire { MUSTER_WIRE_SAME, MUSTER_WIRE_FLOAT16, MUSTER_WIRE_BFLOAT16 } muster_wire;

typedef struct muster_tensor {
  const void* in;       /* of a tensor without elements on a GPU: any memory of it, or NULL */
  void* out;            /* of allreduce, adasum and broadcast: of the same shape; may be `in`. Otherwise: see on_gpu */
  const int64_t* shape; /* [dimensions] */
  int dimensions;
  muster_dtype type;
} muster_tensor;

typedef struct muster_submission {
  size_t size;      /* sizeof(muster_submission): later versions append fields */
  const char* name; /* the same on all ranks; free again when the ticket is done */
  muster_kind kind;
  muster_op op; /* of allreduce and reducescatter */
  int root;     /* of broadcast: a rank of the communicator */
  int count;    /* of tensors; several are one unit: none begins before all ranks have submitted all of them */
  const muster_tensor* tensors;
  double prescale, postscale; /* of reductions, as for muster_allreduce_scaled() */
  const int64_t* splits;      /* of alltoall: [size of the communicator] */
  /* 1: tensors are memory of a GPU, the same one for all submissions of this rank; not of adasum. What `stream` (a
   * cudaStream_t of that GPU, not one that is captured) has when they are submitted computes them; results are complete
   * when the ticket is done, for all streams. (Since these two were appended; without them, `size` ends before.) Of an
   * allgather, alltoall or reducescatter the result is on the GPU, too: in the tensor's `out`, if it is not NULL and
   * the result has as many rows as it has where all ranks give what this one does (an allgather: size times as many; an
   * alltoall: equally many; a reducescatter: always); else where `allocate` says. */
  int on_gpu;
  void* stream;
  /* Of an allreduce of float32 on a GPU: tensors are cast as they are packed, scaled by `prescale` before, and back as
   * they are unpacked. Where no kernels can be had (a path that has to be staged), they travel as they are. The same on
   * all ranks. (Appended later.) */
  muster_wire wire;
  /* Memory of the GPU for result `index`, which no stream uses any more: of so many bytes, not 0. Called by a thread of
   * libmuster's before the ticket is done; NULL: there is none, which ends the engine. Where it is NULL itself, results
   * belong to the ticket (and giving them back waits for the GPU). (Appended later.) */
  void* (*allocate)(void* context, int index, size_t bytes);
  void* context;
} muster_submission;

/* Collective over the ranks of `comm`, which it does not use afterwards. Settings come from the HOROVOD_* variables of
 * docs/environment.md; only an engine with `writes_files` heeds those that name files (a timeline, the log of the
 * autotuner): one of a process. */
MUSTER_API muster_code muster_engine_start(muster_comm* comm, int writes_files, muster_engine** engine,
                                           muster_error** error);
/* Tells the other ranks, whose tensors that are not done fail as this rank's do; waits until they have heard it, for at
 * most `seconds`. */
MUSTER_API void muster_engine_shut_down(muster_engine* engine, double seconds);
/* Shuts it down, if that was not done. Tickets stay valid. NULL is allowed. */
MUSTER_API void muster_engine_free(muster_engine* engine);

/* MUSTER_INVALID: cannot be done, or the name is taken. What goes wrong otherwise is told by muster_ticket_wait(). What
 * `submission` points to (except for the tensors' data) may go when the call returns. */
MUSTER_API muster_code muster_engine_submit(muster_engine* engine, const muster_submission* submission,
                                            muster_ticket** ticket, muster_error** error);

/* Writes a timeline in Chrome's trace format from now on, instead of one that is being written; with `marks_turns`, a
 * mark for every turn of negotiation. NULL ends it. A call on rank 0 does it; others do nothing. */
MUSTER_API muster_code muster_engine_timeline(muster_engine* engine, const char* path, int marks_turns,
                                              muster_error** error);

/* Waits until it is done, for at most `seconds` (negative: for ever). MUSTER_TIMEOUT without an error: not done yet. */
MUSTER_API muster_code muster_ticket_wait(muster_ticket* ticket, double seconds, muster_error** error);
MUSTER_API int muster_ticket_is_done(muster_ticket* ticket);

/* Of an allgather, alltoall or reducescatter that is done without an error: tensor `index` of the submission. Belongs
 * to the ticket, but for memory of the caller's. */
typedef struct muster_output {
  const void* data;
  const int64_t* shape;
  int dimensions;
  muster_dtype type;
} muster_output;
/* MUSTER_INVALID: there is no such output. */
MUSTER_API muster_code muster_ticket_output(const muster_ticket* ticket, int index, muster_output* output);
/* Of an alltoall that is done: rows from each rank, [size of the communicator]. Belongs to the ticket. */
MUSTER_API const int64_t* muster_ticket_received_splits(const muster_ticket* ticket);
/* Of a join that is done: the last rank that joined. */
MUSTER_API int muster_ticket_last_joined(const muster_ticket* ticket);
/* An operation that runs goes on, with its tensors; a result on a GPU that would be the ticket's then is freed with the
 * engine. NULL is allowed. */
MUSTER_API void muster_ticket_free(muster_ticket* ticket);

#ifdef __cplusplus
}
#endif

#endif /* MUSTER_ENGINE_H_ */
