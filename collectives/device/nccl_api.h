// The functions of NCCL (libnccl.so.2, 2.14 or later) that libmuster uses, found at run time. In a torch process this
// is the NCCL that torch has loaded. Types and numbers are those of nccl.h; cuda_abi_check.cc compares them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "collectives/kernel/dtype.h"

namespace muster::collectives::device {

using NcclResult = int;
using NcclComm = void*;

struct NcclUniqueId {
  char internal[128];
};
// ncclConfig_t as of 2.14. Later versions use `size` to find which members exist, and give the others their defaults.
struct NcclConfig {
  std::size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
  int padding = -2147483647 - 1;  // NCCL_CONFIG_UNDEF_INT, in case a version reads it
};
static_assert(sizeof(NcclConfig) == 24);

inline constexpr NcclResult kNcclSuccess = 0;
inline constexpr NcclResult kNcclInProgress = 7;
inline constexpr int kNcclNoColor = -1;

#define MUSTER_NCCL_FUNCTIONS(X)                                                                                      \
  X(get_version, ncclGetVersion, (int* version))                                                                      \
  X(get_unique_id, ncclGetUniqueId, (NcclUniqueId * id))                                                              \
  X(init_rank, ncclCommInitRankConfig, (NcclComm * comm, int ranks, NcclUniqueId id, int rank, NcclConfig* config))   \
  X(get_async_error, ncclCommGetAsyncError, (NcclComm comm, NcclResult * error))                                      \
  X(abort, ncclCommAbort, (NcclComm comm))                                                                            \
  X(all_reduce, ncclAllReduce,                                                                                        \
    (const void* in, void* out, std::size_t count, int type, int op, NcclComm comm, void* stream))                    \
  X(broadcast, ncclBroadcast,                                                                                         \
    (const void* in, void* out, std::size_t count, int type, int root, NcclComm comm, void* stream))                  \
  X(all_gather, ncclAllGather, (const void* in, void* out, std::size_t count, int type, NcclComm comm, void* stream)) \
  X(reduce_scatter, ncclReduceScatter,                                                                                \
    (const void* in, void* out, std::size_t count, int type, int op, NcclComm comm, void* stream))                    \
  X(send, ncclSend, (const void* data, std::size_t count, int type, int peer, NcclComm comm, void* stream))           \
  X(receive, ncclRecv, (void* data, std::size_t count, int type, int peer, NcclComm comm, void* stream))              \
  X(group_start, ncclGroupStart, ())                                                                                  \
  X(group_end, ncclGroupEnd, ())

struct NcclApi {
  // NOT_FOUND if NCCL is missing or too old.
  // If the user requests NCCL's log (NCCL_DEBUG) without a file of its own (NCCL_DEBUG_FILE), load() sets this
  // process's stdout to line buffering. NCCL writes there, and buffered lines of a killed rank would reach no log.
  static base::Result<std::shared_ptr<const NcclApi>> load();

  // These two functions return no NcclResult, so they are not in the table.
  const char* (*get_error_string)(NcclResult result) = nullptr;
  const char* (*get_last_error)(NcclComm comm) = nullptr;
  // Null if this version lacks it. Also null before 2.20.5, where the processes of one host lose each other.
  NcclResult (*split)(NcclComm comm, int color, int key, NcclComm* made, NcclConfig* config) = nullptr;
#define MUSTER_NCCL_MEMBER(member, symbol, parameters) NcclResult(*member) parameters = nullptr;
  MUSTER_NCCL_FUNCTIONS(MUSTER_NCCL_MEMBER)
#undef MUSTER_NCCL_MEMBER

  int version = 0;
  // Returns whether a part that split() makes lives and ends without its parent. Call it only after NCCL has formed a
  // communicator. NCCL reads its configuration files first and puts their values into the environment.
  bool splits() const;
  // Returns OK, or INTERNAL with NCCL's last message in this process: "ncclCommInitRankConfig: unhandled system error:
  // no socket interface found (NCCL error 2)".
  base::Status check(NcclResult result, const char* what) const;
};

// The next two return NCCL's number of a type and of a reduction, or -1 if NCCL has no equivalent.
int nccl_type(DType type);
int nccl_op(DType type, RedOp op);

}  // namespace muster::collectives::device
