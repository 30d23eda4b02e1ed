// Describes the collective that a rank has called. Ranks exchange their calls before any data moves. So they notice if
// they have called different collectives.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/kernel/dtype.h"

namespace muster::collectives::inline call {

enum class Op : std::uint8_t {
  kNone,
  kAllreduce,
  kAllgather,
  kAllgatherv,
  kReduceScatter,
  kBroadcast,
  kAlltoall,
  kAlltoallv,
  kReduce,
  kGather,
  kScatter,
  kBarrier,
  kSend,
  kSplit,
  kAllocate,
};
const char* name_of(Op op);

// Ranks copy a Call byte for byte into shared memory and into message headers.
struct Call {
  std::uint64_t count = 0;  // elements, as the caller passed them; 0 if ranks may differ (allgatherv, alltoallv)
  // For kSend `root` is the tag, for kSplit the requested algorithm, and otherwise a rank of the communicator. Values
  // below -1 are a fingerprint of scales, or of counts that differ between ranks (fingerprint.h).
  std::int32_t root = -1;
  Op op = Op::kNone;
  DType type = DType::kF32;
  RedOp redop = RedOp::kSum;
  std::uint8_t scale = 0;  // 1 if scaled
  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 16);

// Returns text such as "allreduce of 1024 float32, sum" or "broadcast of 8 int64 from rank 2".
std::string describe(const Call& call);
// Describes the receiver's side of a kSend, such as "recv of 8 int64, tag 3".
std::string describe_receive(const Call& call);

}  // namespace muster::collectives::call
