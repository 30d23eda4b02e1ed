#include "collectives/device/nccl_route.h"

#include <utility>

namespace muster::collectives::device {

base::Result<std::unique_ptr<Route>> NcclRoute::make(const Ground& ground, std::shared_ptr<const NcclApi> nccl) {
  std::unique_ptr<NcclRoute> made(new NcclRoute(ground, std::move(nccl)));
  MUSTER_RETURN_IF_ERROR(made->start());
  MUSTER_RETURN_IF_ERROR(made->form());
  return std::unique_ptr<Route>(std::move(made));
}

// Also at a good end: all operations were waited for, so nothing is lost by an end that waits for nobody.
void NcclRoute::abort() {
  if (comm_ == nullptr) return;
  const Gpu::Current current(*ground_.gpu);
  (void)nccl_->abort(std::exchange(comm_, nullptr));
}

base::Status NcclRoute::form() {
  // With how it went: who waits for an id must hear that there is none.
  struct Made {
    NcclUniqueId id{};
    NcclResult result = kNcclSuccess;
  } made;
  if (ground_.comm.rank() == 0) made.result = nccl_->get_unique_id(&made.id);
  MUSTER_RETURN_IF_ERROR(ground_.comm.broadcast(&made, sizeof made, DType::kU8, 0));
  MUSTER_RETURN_IF_ERROR(nccl_->check(made.result, "ncclGetUniqueId"));
  NcclConfig config;
  const Gpu::Current current(*ground_.gpu);
  const NcclResult result = nccl_->init_rank(&comm_, ground_.comm.size(), made.id, ground_.comm.rank(), &config);
  return settle(result, "ncclCommInitRankConfig");
}

base::Status NcclRoute::settle(NcclResult result, const char* what) {
  MUSTER_RETURN_IF_ERROR(nccl_->check(result, what));
  const Watch watch(ground_.comm);
  while (true) {
    NcclResult state = kNcclSuccess;
    MUSTER_RETURN_IF_ERROR(nccl_->check(nccl_->get_async_error(comm_, &state), "ncclCommGetAsyncError"));
    if (state != kNcclInProgress) return nccl_->check(state, what);
    MUSTER_RETURN_IF_ERROR(watch.pause());
  }
}

base::Status NcclRoute::meet(const Call& call) {
  auto all = agree(ground_.comm, Said{.call = call});
  return all.status();
}

bool NcclRoute::has(const ReduceTask& task) {
  const bool is_scaled = task.scale.before != 1 || task.scale.after != 1;
  const bool is_float = nccl_type(task.type) >= 6;  // there are kernels that scale it
  return nccl_op(task.type, task.op) >= 0 && (!is_scaled || is_float);
}

base::Status NcclRoute::scale(const void* in, void* out, std::size_t count, DType type, double factor) {
  const Move move{address_of(in), address_of(out), count};
  return ground_.kernels->transfer(ground_.stream, {&move, 1}, type, type, factor);
}

base::Status NcclRoute::allreduce(const ReduceTask& task) {
  if (!has(task)) return Staged::allreduce(task);
  MUSTER_RETURN_IF_ERROR(meet(call_of(Op::kAllreduce, task)));
  const void* in = task.input;
  if (task.scale.before != 1) {
    MUSTER_RETURN_IF_ERROR(scale(task.input, task.output, task.count, task.type, task.scale.before));
    in = task.output;
  }
  const Gpu::Current current(*ground_.gpu);
  MUSTER_RETURN_IF_ERROR(settle(nccl_->all_reduce(in, task.output, task.count, nccl_type(task.type),
                                                  nccl_op(task.type, task.op), comm_, ground_.stream),
                                "ncclAllReduce"));
  if (task.scale.after == 1) return base::ok_status();
  return scale(task.output, task.output, task.count, task.type, task.scale.after);
}

base::Status NcclRoute::broadcast(void* data, std::size_t bytes, int root) {
  MUSTER_RETURN_IF_ERROR(meet({.count = bytes, .root = root, .op = Op::kBroadcast, .type = DType::kU8}));
  const Gpu::Current current(*ground_.gpu);
  return settle(nccl_->broadcast(data, data, bytes, nccl_type(DType::kU8), root, comm_, ground_.stream),
                "ncclBroadcast");
}

base::Status NcclRoute::allgather(const void* in, void* out, std::size_t bytes) {
  MUSTER_RETURN_IF_ERROR(meet({.count = bytes, .op = Op::kAllgather, .type = DType::kU8}));
  const Gpu::Current current(*ground_.gpu);
  return settle(nccl_->all_gather(in, out, bytes, nccl_type(DType::kU8), comm_, ground_.stream), "ncclAllGather");
}

base::Status NcclRoute::reduce_scatter(const ReduceTask& task) {
  // The input stays as it is, and there is no room for it scaled.
  if (!has(task) || task.scale.before != 1 || task.scale.after != 1) return Staged::reduce_scatter(task);
  MUSTER_RETURN_IF_ERROR(meet(call_of(Op::kReduceScatter, task)));
  const Gpu::Current current(*ground_.gpu);
  return settle(nccl_->reduce_scatter(task.input, task.output, task.count, nccl_type(task.type),
                                      nccl_op(task.type, task.op), comm_, ground_.stream),
                "ncclReduceScatter");
}

// A group of sends and receives, which NCCL does at once. Blocks without bytes are left out on both sides.
base::Status NcclRoute::alltoall(const void* in, Blocks to, void* out, Blocks from) {
  MUSTER_RETURN_IF_ERROR(agree_on_blocks(ground_.comm, to, from).status());
  const int type = nccl_type(DType::kU8);
  const Gpu::Current current(*ground_.gpu);
  MUSTER_RETURN_IF_ERROR(nccl_->check(nccl_->group_start(), "ncclGroupStart"));
  base::Status status;
  for (int rank = 0; rank < ground_.comm.size() && status.ok(); ++rank) {
    const Slice& sent = to[static_cast<std::size_t>(rank)];
    const Slice& received = from[static_cast<std::size_t>(rank)];
    if (sent.size != 0) {
      const auto* const data = static_cast<const std::byte*>(in) + sent.begin;
      status = nccl_->check(nccl_->send(data, sent.size, type, rank, comm_, ground_.stream), "ncclSend");
    }
    if (status.ok() && received.size != 0) {
      auto* const data = static_cast<std::byte*>(out) + received.begin;
      status = nccl_->check(nccl_->receive(data, received.size, type, rank, comm_, ground_.stream), "ncclRecv");
    }
  }
  const NcclResult ended = nccl_->group_end();  // also of a group that has failed
  return status.ok() ? settle(ended, "ncclGroupEnd") : status;
}

}  // namespace muster::collectives::device
