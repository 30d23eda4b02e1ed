// Collectives by NCCL: forming, warming up and splitting its communicator, waiting for it, and the operations.
// Read form() and settle() first, then enqueue() and launch(), which all operations use, then the operations.
#include "collectives/device/nccl_route.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/env.h"

namespace muster::collectives::device {
namespace {

constexpr std::size_t kRoom = std::size_t{32} << 20;
// Sizes so different that NCCL may choose different algorithms for them.
constexpr std::size_t kWarmUps[] = {std::size_t{1}, std::size_t{256} << 10, kRoom};

}  // namespace

base::Result<std::unique_ptr<NcclRoute>> NcclRoute::make(const Ground& ground, std::shared_ptr<const NcclApi> nccl) {
  std::unique_ptr<NcclRoute> made(new NcclRoute(ground, std::move(nccl)));
  // Allocate the memory now, because a later allocation may wait for the caller's streams.
  auto room = device::allocate(ground.gpu, kRoom);
  if (!room.ok() && room.status().code() != base::Code::kResourceExhausted) return room.status();
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> have,
                          gather_all(ground.comm, static_cast<std::uint8_t>(room.ok() ? 1 : 0)));
  for (std::size_t rank = 0; rank < have.size(); ++rank) {
    if (have[rank] != 0) continue;
    return base::failed_precondition("the GPU of rank {} has no memory left for {} bytes",
                                     ground.comm.world_rank(static_cast<int>(rank)), kRoom);
  }
  made->room_ = std::move(*room);
  MUSTER_ASSIGN_OR_RETURN(made->begun_, make_event(ground.gpu));
  MUSTER_RETURN_IF_ERROR(made->start());
  return made;
}

// Abort also after success. ncclCommDestroy() would wait for the other ranks of the host, forever if one of them never
// calls it. An abort harms nothing then, because this rank has finished its share of all operations.
// Abort comm_ before part_, because NCCL may still be splitting part_ from comm_.
void NcclRoute::abort() {
  const Gpu::Current current(*ground_.gpu);
  if (comm_ != nullptr) (void)nccl_->abort(std::exchange(comm_, nullptr));
  if (part_ != nullptr) (void)nccl_->abort(std::exchange(part_, nullptr));
}

base::Status NcclRoute::mark_begin() {
  running_.reset();
  return ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, begun_.get(), ground_.stream);
}

// Detects that NCCL's kernels will wait forever. They do so after a network error that only NCCL's threads notice, and
// when a rank of another host is stopped, which no thread notices. The time limit begins when the device begins the
// operation.
base::Status NcclRoute::health() {
  MUSTER_RETURN_IF_ERROR(network());
  const Gpu::Current current(*ground_.gpu);
  if (!running_ && ground_.gpu->api().event_query(begun_.get()) == kCudaSuccess) running_.emplace(of_operation());
  return running_ && running_->is_over() ? running_->error("NCCL's operation on the GPU") : base::ok_status();
}

base::Status NcclRoute::network() const {
  if (comm_ == nullptr) return base::ok_status();
  return is_done(comm_, "NCCL, with an operation on the GPU").status();
}

base::Result<bool> NcclRoute::is_done(NcclComm comm, const char* what) const {
  NcclResult state = kNcclSuccess;
  MUSTER_RETURN_IF_ERROR(nccl_->check(nccl_->get_async_error(comm, &state), "ncclCommGetAsyncError"));
  MUSTER_RETURN_IF_ERROR(nccl_->check(state, what));
  return state != kNcclInProgress;
}

base::Status NcclRoute::form() {
  // Send the result with the id, so that waiting ranks also learn of a failure.
  struct Made {
    NcclUniqueId id{};
    NcclResult result = kNcclSuccess;
  } made;
  const Gpu::Current current(*ground_.gpu);
  if (ground_.comm.rank() == 0) made.result = nccl_->get_unique_id(&made.id);
  MUSTER_RETURN_IF_ERROR(ground_.comm.broadcast(&made, sizeof made, DType::kU8, 0));
  MUSTER_RETURN_IF_ERROR(nccl_->check(made.result, "ncclGetUniqueId"));
  NcclConfig config;
  const Limit limit = of_forming();
  const NcclResult result = nccl_->init_rank(&comm_, ground_.comm.size(), made.id, ground_.comm.rank(), &config);
  MUSTER_RETURN_IF_ERROR(settle(comm_, result, "ncclCommInitRankConfig", limit));
  return warm_up();
}

base::Status NcclRoute::adopt(NcclPart part) {
  comm_ = part.comm.get();
  part.comm.leave();
  return warm_up();
}

// NCCL connects ranks when an operation first needs the connection. It then allocates and copies, which may wait for
// streams that are held. So run each operation once before any stream is held. alltoall needs a connection for each
// pair, which takes memory for good (3 GB were measured on each of 8 H100s). Most programs never use alltoall, so
// connect pairs only if a rank asks for it.
base::Status NcclRoute::warm_up() {
  const Limit limit = of_forming();
  for (const std::size_t bytes : kWarmUps) MUSTER_RETURN_IF_ERROR(warm_up(bytes, limit));
  MUSTER_RETURN_IF_ERROR(warm_up_pairs(limit));
  MUSTER_ASSIGN_OR_RETURN(const Event done, make_event(ground_.gpu));
  const Gpu::Current current(*ground_.gpu);
  const CudaApi& api = ground_.gpu->api();
  MUSTER_RETURN_IF_ERROR(api.check(api.event_record(done.get(), ground_.stream), "cuEventRecord"));
  const Watch watch(ground_.comm);
  CudaResult state = kCudaNotReady;
  while ((state = api.event_query(done.get())) == kCudaNotReady) {
    MUSTER_RETURN_IF_ERROR(network());
    MUSTER_RETURN_IF_ERROR(watch.pause());
    if (limit.is_over()) return limit.error("the first operation of each kind by NCCL");
  }
  return api.check(state, "NCCL's first operations on the GPU (cuEventQuery)");
}

// Runs each operation once. The buffers of all ranks together have `bytes` bytes, but each rank has at least one
// element.
base::Status NcclRoute::warm_up(std::size_t bytes, const Limit& limit) {
  const auto ranks = static_cast<std::size_t>(ground_.comm.size());
  const std::size_t part = std::max<std::size_t>(bytes / sizeof(float) / ranks, 1);
  auto* const all = reinterpret_cast<float*>(room_.get());
  float* const own = all + static_cast<std::size_t>(ground_.comm.rank()) * part;
  const int type = nccl_type(DType::kF32);
  const int sum = nccl_op(DType::kF32, RedOp::kSum);
  void* const stream = ground_.stream;
  const Gpu::Current current(*ground_.gpu);
  MUSTER_RETURN_IF_ERROR(settle(comm_, nccl_->all_reduce(all, all, ranks * part, type, sum, comm_, stream),
                                "the first ncclAllReduce", limit));
  MUSTER_RETURN_IF_ERROR(settle(comm_, nccl_->broadcast(all, all, ranks * part, type, 0, comm_, stream),
                                "the first ncclBroadcast", limit));
  MUSTER_RETURN_IF_ERROR(
      settle(comm_, nccl_->all_gather(own, all, part, type, comm_, stream), "the first ncclAllGather", limit));
  return settle(comm_, nccl_->reduce_scatter(all, own, part, type, sum, comm_, stream), "the first ncclReduceScatter",
                limit);
}

// All ranks run this if one of them asks for it, because NCCL would wait for the others.
base::Status NcclRoute::warm_up_pairs(const Limit& limit) {
  const std::string requested = base::env_var("MUSTER_WARM_ALLTOALL").value_or("");
  const auto own = static_cast<std::uint8_t>(requested.empty() || requested == "0" ? 0 : 1);
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::uint8_t> all, gather_all(ground_.comm, own));
  if (std::ranges::count(all, 0) == std::ssize(all)) return base::ok_status();
  std::vector<Slice> blocks;
  for (std::size_t rank = 0; rank < all.size(); ++rank) blocks.push_back({rank, 1});
  auto* const bytes = reinterpret_cast<std::byte*>(room_.get());
  const Gpu::Current current(*ground_.gpu);
  return settle(comm_, exchange(bytes, blocks, bytes + all.size(), blocks), "the first ncclSend and ncclRecv", limit);
}

base::Result<NcclPart> NcclRoute::split(int color, int key) {
  const CallHeader own{.call = {.op = Op::kSplit}, .in_region = nccl_->splits() ? 1U : 0U};
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all, agree(ground_.comm, own));
  if (std::ranges::any_of(all, [](const CallHeader& one) { return one.in_region == 0; })) return NcclPart{};
  NcclConfig config;
  const Gpu::Current current(*ground_.gpu);
  const Limit limit = of_forming();
  const NcclResult result = nccl_->split(comm_, color < 0 ? kNcclNoColor : color, key, &part_, &config);
  // NCCL reports the progress of the split on the parent. The part exists once the parent is done.
  MUSTER_RETURN_IF_ERROR(settle(comm_, result, "ncclCommSplit", limit));
  if (part_ != nullptr) MUSTER_RETURN_IF_ERROR(settle(part_, kNcclSuccess, "ncclCommSplit", limit));
  // Let all ranks meet. Otherwise a rank with a part could wait forever for a rank whose split failed at the end.
  MUSTER_RETURN_IF_ERROR(ground_.comm.barrier());
  return NcclPart{{ground_.gpu, std::exchange(part_, nullptr), nccl_->abort}, ground_.gpu->ordinal()};
}

NcclRoute::Limit NcclRoute::of_forming() const {
  const WorldOptions& options = ground_.comm.world().options();
  return Limit(std::max(options.deadline, options.join_deadline));
}

NcclRoute::Limit NcclRoute::of_operation() const {
  return Limit(ground_.comm.world().options().deadline);
}

base::Status NcclRoute::Limit::error(const char* what) const {
  return base::deadline_exceeded(
      "{} did not finish within {} s: a rank is stopped, NCCL cannot reach a rank (NCCL_DEBUG=INFO shows "
      "more), or the operation needs more time (raise MUSTER_OPERATION_TIMEOUT)",
      what, std::chrono::duration<double>(time).count());
}

base::Status NcclRoute::settle(NcclComm comm, NcclResult result, const char* what, const Limit& limit) {
  MUSTER_RETURN_IF_ERROR(nccl_->check(result, what));
  const Watch watch(ground_.comm);
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_over, is_done(comm, what));
    if (is_over) return base::ok_status();
    MUSTER_RETURN_IF_ERROR(watch.pause());
    if (limit.is_over()) return limit.error(what);
  }
}

template <class NcclCall>
base::Status NcclRoute::enqueue(const char* what, const NcclCall& call) {
  const Gpu::Current current(*ground_.gpu);
  const Limit limit = of_operation();  // made before the call, because the time of NCCL's call counts
  return settle(comm_, call(), what, limit);
}

// NCCL's kernel waits for the kernels of all ranks. So the ranks meet here, after each has enqueued its own. If a rank
// stops before that, the error names it. The meeting costs little while the devices are busy.
template <class NcclCall>
base::Status NcclRoute::launch(const char* what, const NcclCall& call) {
  MUSTER_RETURN_IF_ERROR(enqueue(what, call));
  return ground_.comm.barrier();
}

base::Status NcclRoute::meet(const Call& call) {
  auto all = agree(ground_.comm, CallHeader{.call = call});
  return all.status();
}

bool NcclRoute::has(const ReduceTask& task) {
  const bool is_scaled = task.scale.before != 1 || task.scale.after != 1;
  const bool is_float = nccl_type(task.type) >= 6;  // the kernels scale only floats
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
  MUSTER_RETURN_IF_ERROR(launch("ncclAllReduce", [&] {
    return nccl_->all_reduce(in, task.output, task.count, nccl_type(task.type), nccl_op(task.type, task.op), comm_,
                             ground_.stream);
  }));
  if (task.scale.after == 1) return base::ok_status();
  return scale(task.output, task.output, task.count, task.type, task.scale.after);
}

base::Status NcclRoute::broadcast(void* data, std::size_t bytes, int root) {
  MUSTER_RETURN_IF_ERROR(meet({.count = bytes, .root = root, .op = Op::kBroadcast, .type = DType::kU8}));
  return launch("ncclBroadcast", [&] {
    return nccl_->broadcast(data, data, bytes, nccl_type(DType::kU8), root, comm_, ground_.stream);
  });
}

base::Status NcclRoute::allgather(const void* in, void* out, std::size_t bytes) {
  MUSTER_RETURN_IF_ERROR(meet({.count = bytes, .op = Op::kAllgather, .type = DType::kU8}));
  return launch("ncclAllGather",
                [&] { return nccl_->all_gather(in, out, bytes, nccl_type(DType::kU8), comm_, ground_.stream); });
}

base::Status NcclRoute::reduce_scatter(const ReduceTask& task) {
  if (!has(task)) return Staged::reduce_scatter(task);
  const auto ranks = static_cast<std::size_t>(ground_.comm.size());
  const std::byte* const own_part = task.in() + static_cast<std::size_t>(ground_.comm.rank()) * task.bytes();
  // NCCL reads the input until the end. It writes only this rank's own part of the input.
  const bool is_disjoint = task.out() + task.bytes() <= task.in() || task.in() + ranks * task.bytes() <= task.out();
  const bool is_moved = task.scale.before != 1 || !(is_disjoint || task.out() == own_part);
  const CallHeader own{.call = call_of(Op::kReduceScatter, task), .in_region = is_moved ? 1U : 0U};
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all, agree(ground_.comm, own));
  // If one rank must work in pieces, all ranks do.
  const bool is_any_moved = std::ranges::any_of(all, [](const CallHeader& one) { return one.in_region != 0; });
  MUSTER_RETURN_IF_ERROR(is_any_moved ? enqueue_reduce_scatter_moved(task) : enqueue_reduce_scatter(task.input, task));
  MUSTER_RETURN_IF_ERROR(ground_.comm.barrier());  // as in launch()
  if (task.scale.after == 1) return base::ok_status();
  return scale(task.output, task.output, task.count, task.type, task.scale.after);
}

base::Status NcclRoute::enqueue_reduce_scatter(const void* in, const ReduceTask& task) {
  return enqueue("ncclReduceScatter", [&] {
    return nccl_->reduce_scatter(in, task.output, task.count, nccl_type(task.type), nccl_op(task.type, task.op), comm_,
                                 ground_.stream);
  });
}

// Moves a piece of every rank's part at a time. One kernel scales it on its way into room_.
base::Status NcclRoute::enqueue_reduce_scatter_moved(const ReduceTask& task) {
  const auto ranks = static_cast<std::size_t>(ground_.comm.size());
  const std::size_t most = kRoom / ranks / task.element();  // ranks are at most 2^16
  ReduceTask piece = task;
  for (std::size_t at = 0; at < task.count; at += most) {
    piece.count = std::min(most, task.count - at);
    piece.output = task.out() + at * task.element();
    std::vector<Move> moves;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::byte* const from = task.in() + (rank * task.count + at) * task.element();
      moves.push_back({address_of(from), room_.get() + rank * piece.bytes(), piece.count});
    }
    MUSTER_RETURN_IF_ERROR(ground_.kernels->transfer(ground_.stream, moves, task.type, task.type, task.scale.before));
    MUSTER_RETURN_IF_ERROR(enqueue_reduce_scatter(reinterpret_cast<const void*>(room_.get()), piece));
  }
  return base::ok_status();
}

// Uses a group of sends and receives, which NCCL runs at once. Both sides skip empty blocks.
base::Status NcclRoute::alltoall(const void* in, Blocks to, void* out, Blocks from) {
  MUSTER_RETURN_IF_ERROR(agree_on_blocks(ground_.comm, to, from).status());
  return launch("a group of ncclSend and ncclRecv", [&] { return exchange(in, to, out, from); });
}

NcclResult NcclRoute::exchange(const void* in, Blocks to, void* out, Blocks from) {
  const int type = nccl_type(DType::kU8);
  NcclResult result = nccl_->group_start();
  const auto is_well = [&result] { return result == kNcclSuccess || result == kNcclInProgress; };
  if (!is_well()) return result;
  for (int rank = 0; rank < ground_.comm.size() && is_well(); ++rank) {
    const Slice& sent = to[static_cast<std::size_t>(rank)];
    const Slice& received = from[static_cast<std::size_t>(rank)];
    if (sent.size != 0) {
      const auto* const data = static_cast<const std::byte*>(in) + sent.begin;
      result = nccl_->send(data, sent.size, type, rank, comm_, ground_.stream);
    }
    if (is_well() && received.size != 0) {
      auto* const data = static_cast<std::byte*>(out) + received.begin;
      result = nccl_->receive(data, received.size, type, rank, comm_, ground_.stream);
    }
  }
  const NcclResult ended = nccl_->group_end();  // also after a failure inside the group
  return is_well() ? ended : result;
}

}  // namespace muster::collectives::device
