#include "collectives/device/route.h"

#include <algorithm>
#include <bit>

#include "collectives/call/fingerprint.h"

namespace muster::collectives::device {

Call call_of(Op op, const ReduceTask& task) {
  Call call{.count = task.count, .op = op, .type = task.type, .redop = task.op};
  if (task.scale.before != 1 || task.scale.after != 1) {
    call.scale = 1;
    const std::array<std::uint64_t, 2> scales{std::bit_cast<std::uint64_t>(task.scale.before),
                                              std::bit_cast<std::uint64_t>(task.scale.after)};
    call.root = as_root(hash_of(scales));
  }
  return call;
}

base::Result<std::vector<CallHeader>> agree(Communicator& comm, const CallHeader& own) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<CallHeader> all, gather_all(comm, own));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].call == own.call) continue;
    return base::failed_precondition("rank {} calls {} on its GPU, rank {} calls {} (communicator {})",
                                     comm.world_rank(static_cast<int>(rank)), describe(all[rank].call),
                                     comm.world_rank(comm.rank()), describe(own.call), comm.name());
  }
  return all;
}

base::Result<std::size_t> agree_on_blocks(Communicator& comm, Blocks to, Blocks from) {
  MUSTER_RETURN_IF_ERROR(agree(comm, {.call = {.op = Op::kAlltoallv, .type = DType::kU8}}).status());
  std::vector<std::uint64_t> sent;
  std::vector<std::uint64_t> incoming(to.size());
  std::vector<Slice> words;
  for (std::size_t rank = 0; rank < to.size(); ++rank) {
    words.push_back({rank * sizeof(std::uint64_t), sizeof(std::uint64_t)});
    sent.push_back(to[rank].size);
  }
  MUSTER_RETURN_IF_ERROR(comm.alltoall(sent.data(), words, incoming.data(), words, DType::kU8, sizeof(std::uint64_t)));
  struct Verdict {
    std::uint64_t most;
    std::int64_t sender;  // the sender of an unexpected block; -1 if all blocks were expected
    std::uint64_t sent;
    std::uint64_t expected;
  } own{std::ranges::max(sent), -1, 0, 0};
  for (std::size_t rank = 0; rank < from.size(); ++rank) {
    if (incoming[rank] == from[rank].size) continue;
    own = {own.most, static_cast<std::int64_t>(rank), incoming[rank], from[rank].size};
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Verdict> all, gather_all(comm, own));
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    most = std::max(most, all[rank].most);
    if (all[rank].sender < 0) continue;
    return base::failed_precondition("alltoall: rank {} sends {} bytes to rank {}, which expects {} (communicator {})",
                                     comm.world_rank(static_cast<int>(all[rank].sender)), all[rank].sent,
                                     comm.world_rank(static_cast<int>(rank)), all[rank].expected, comm.name());
  }
  return most;
}

base::Status Watch::pause() const {
  const Failure failure = comm_.failure();
  if (failure.code != base::Code::kOk) return {failure.code, failure.message};
  pace_.rest();
  return base::ok_status();
}

base::Status wait_until_done(const Ground& ground, void* event, Route* route) {
  const CudaApi& api = ground.gpu->api();
  const Gpu::Current current(*ground.gpu);
  const Watch watch(ground.comm);
  while (true) {
    const CudaResult result = api.event_query(event);
    if (result == kCudaSuccess) return base::ok_status();
    if (result != kCudaNotReady) return api.check(result, "the work on the GPU (cuEventQuery)");
    if (route != nullptr) MUSTER_RETURN_IF_ERROR(route->health());
    MUSTER_RETURN_IF_ERROR(watch.pause());
  }
}

}  // namespace muster::collectives::device
