// What a rank says of the collective that it has called, so that ranks that call different things find out before any
// data is taken.
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

// As it lies in shared memory and in the header of messages.
struct Call {
  std::uint64_t count = 0;  // elements, as the caller gave them; 0 where ranks may differ (allgatherv, alltoallv)
  // Rank in the communicator; of kSend: the tag; of kSplit: the algorithm that was asked for. Below -1: a fingerprint
  // of scales, or of counts that differ from rank to rank (fingerprint.h).
  std::int32_t root = -1;
  Op op = Op::kNone;
  DType type = DType::kF32;
  RedOp redop = RedOp::kSum;
  std::uint8_t scale = 0;  // 1: scaled
  bool operator==(const Call&) const = default;
};
static_assert(sizeof(Call) == 16);

// "allreduce of 1024 float32, sum" / "broadcast of 8 int64 from rank 2".
std::string describe(const Call& call);
// The other side of a kSend: "recv of 8 int64, tag 3".
std::string describe_receive(const Call& call);

}  // namespace muster::collectives::call
