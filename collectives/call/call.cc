#include "collectives/call/call.h"

#include <string_view>

#include <fmt/format.h>

namespace muster::collectives::inline call {

const char* name_of(Op op) {
  switch (op) {
    case Op::kNone:
      return "nothing";
    case Op::kAllreduce:
      return "allreduce";
    case Op::kAllgather:
      return "allgather";
    case Op::kAllgatherv:
      return "allgatherv";
    case Op::kReduceScatter:
      return "reduce_scatter";
    case Op::kBroadcast:
      return "broadcast";
    case Op::kAlltoall:
      return "alltoall";
    case Op::kAlltoallv:
      return "alltoallv";
    case Op::kReduce:
      return "reduce";
    case Op::kGather:
      return "gather";
    case Op::kScatter:
      return "scatter";
    case Op::kBarrier:
      return "barrier";
    case Op::kSend:
      return "send";
    case Op::kSplit:
      return "split";
    case Op::kAllocate:
      return "allocate";
  }
  return "unknown";
}

std::string describe(const Call& call) {
  // A peer's call may hold numbers beyond the tables, because the peer may run another build.
  const bool is_known = static_cast<int>(call.type) < kDTypes && static_cast<int>(call.redop) < kRedOps;
  if (!is_known) return fmt::format("{} of an unknown data type", name_of(call.op));
  if (call.op == Op::kSplit && call.root >= 0) return fmt::format("split, with algorithm number {}", call.root);
  if (call.op == Op::kBarrier || call.op == Op::kSplit) return name_of(call.op);
  if (call.op == Op::kAllocate) return fmt::format("allocate of {} bytes", call.count);
  std::string text = fmt::format("{} of {} {}", name_of(call.op), call.count, name_of(call.type));
  if (call.op == Op::kAllreduce || call.op == Op::kReduceScatter || call.op == Op::kReduce) {
    text += fmt::format(", {}", name_of(call.redop));
  }
  if (call.root >= 0) text += fmt::format(", {} {}", call.op == Op::kSend ? "tag" : "root", call.root);
  // A Call has only the fingerprint of the scales or counts, so print that.
  if (call.scale != 0) {
    text += fmt::format(", scaled (fingerprint {:x})", -2L - call.root);
  } else if (call.root < -1) {
    text += fmt::format(" in all (fingerprint of the counts {:x})", -2L - call.root);
  }
  return text;
}

std::string describe_receive(const Call& call) {
  return "recv" + describe(call).substr(std::string_view("send").size());
}

}  // namespace muster::collectives::call
