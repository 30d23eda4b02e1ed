#include "collectives/device/nccl_route.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace muster::collectives::device {
namespace {

constexpr std::chrono::milliseconds kNewsTime{1000};  // from what NCCL sees of a rank's end to the news of it
constexpr std::size_t kRoom = std::size_t{32} << 20;

}  // namespace

base::Result<std::unique_ptr<NcclRoute>> NcclRoute::make(const Ground& ground, std::shared_ptr<const NcclApi> nccl) {
  std::unique_ptr<NcclRoute> made(new NcclRoute(ground, std::move(nccl)));
  MUSTER_RETURN_IF_ERROR(made->start());
  return made;
}

// Also at a good end: this rank's part of all operations was waited for, and ncclCommDestroy() would wait for the ranks
// of this host, without an end when one of them does other things. The parent before its part, which NCCL may still be
// making.
void NcclRoute::abort() {
  const Gpu::Current current(*ground_.gpu);
  if (comm_ != nullptr) (void)nccl_->abort(std::exchange(comm_, nullptr));
  if (part_ != nullptr) (void)nccl_->abort(std::exchange(part_, nullptr));
}

// What NCCL's threads have seen of its network: its kernels would wait for ever.
base::Status NcclRoute::health() {
  if (comm_ == nullptr) return base::ok_status();
  const auto done = is_done(comm_, "NCCL, with an operation on the GPU");
  return done.ok() ? base::ok_status() : explain(done.status());
}

base::Result<bool> NcclRoute::is_done(NcclComm comm, const char* what) const {
  NcclResult state = kNcclSuccess;
  MUSTER_RETURN_IF_ERROR(nccl_->check(nccl_->get_async_error(comm, &state), "ncclCommGetAsyncError"));
  MUSTER_RETURN_IF_ERROR(nccl_->check(state, what));
  return state != kNcclInProgress;
}

base::Status NcclRoute::form() {
  // With how it went: who waits for an id must hear that there is none.
  struct Made {
    NcclUniqueId id{};
    NcclResult result = kNcclSuccess;
  } made;
  const Gpu::Current current(*ground_.gpu);
  if (ground_.comm.rank() == 0) made.result = nccl_->get_unique_id(&made.id);
  MUSTER_RETURN_IF_ERROR(ground_.comm.broadcast(&made, sizeof made, DType::kU8, 0));
  MUSTER_RETURN_IF_ERROR(nccl_->check(made.result, "ncclGetUniqueId"));
  NcclConfig config;
  const NcclResult result = nccl_->init_rank(&comm_, ground_.comm.size(), made.id, ground_.comm.rank(), &config);
  return settle(comm_, result, "ncclCommInitRankConfig", forming_time());
}

void NcclRoute::adopt(NcclPart part) {
  comm_ = part.comm.get();
  part.comm.leave();
}

base::Result<NcclPart> NcclRoute::split(int color, int key) {
  const Said own{.call = {.op = Op::kSplit}, .in_region = nccl_->splits() ? 1U : 0U};
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Said> all, agree(ground_.comm, own));
  if (std::ranges::any_of(all, [](const Said& said) { return said.in_region == 0; })) return NcclPart{};
  NcclConfig config;
  const Gpu::Current current(*ground_.gpu);
  const NcclResult result = nccl_->split(comm_, color < 0 ? kNcclNoColor : color, key, &part_, &config);
  // It goes on in the parent's name; the part is there when that is done.
  MUSTER_RETURN_IF_ERROR(settle(comm_, result, "ncclCommSplit", forming_time()));
  if (part_ != nullptr) MUSTER_RETURN_IF_ERROR(settle(part_, kNcclSuccess, "ncclCommSplit", forming_time()));
  // Who has a part could wait for ever for one that has failed at the end.
  MUSTER_RETURN_IF_ERROR(ground_.comm.barrier());
  return NcclPart{{ground_.gpu, std::exchange(part_, nullptr), nccl_->abort}, ground_.gpu->ordinal()};
}

std::chrono::milliseconds NcclRoute::forming_time() const {
  const WorldOptions& options = ground_.comm.world().options();
  return std::max(options.deadline, options.join_deadline);
}

base::Status NcclRoute::settle(NcclResult result, const char* what) {
  return settle(comm_, result, what, ground_.comm.world().options().deadline);
}

base::Status NcclRoute::settle(NcclComm comm, NcclResult result, const char* what, std::chrono::milliseconds time) {
  const base::Status given = nccl_->check(result, what);
  if (!given.ok()) return explain(given);
  const Watch watch(ground_.comm);
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto done = is_done(comm, what);
    if (!done.ok()) return explain(done.status());
    if (*done) return base::ok_status();
    MUSTER_RETURN_IF_ERROR(watch.pause());
    if (std::chrono::steady_clock::now() < end) continue;
    return base::error(base::Code::kDeadlineExceeded,
                       "{} has not come to an end within {} s: a rank is stopped, or NCCL cannot reach it "
                       "(NCCL_DEBUG=INFO says more)",
                       what, std::chrono::duration<double>(time).count());
  }
}

// NCCL sees a broken connection, and says neither whose nor why: where a rank has ended, that news is on its way.
base::Status NcclRoute::explain(const base::Status& failed) const {
  const Watch watch(ground_.comm);
  const auto end = std::chrono::steady_clock::now() + kNewsTime;
  while (std::chrono::steady_clock::now() < end) MUSTER_RETURN_IF_ERROR(watch.pause());
  return failed;
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
  if (!has(task)) return Staged::reduce_scatter(task);
  const auto ranks = static_cast<std::size_t>(ground_.comm.size());
  const std::byte* const own = task.in() + static_cast<std::size_t>(ground_.comm.rank()) * task.bytes();
  // NCCL reads the input until the end, and writes to no part of it but this rank's own.
  const bool is_apart = task.out() + task.bytes() <= task.in() || task.in() + ranks * task.bytes() <= task.out();
  const bool is_moved = task.scale.before != 1 || !(is_apart || task.out() == own);
  const Said said{.call = call_of(Op::kReduceScatter, task), .in_region = is_moved ? 1U : 0U};
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Said> all, agree(ground_.comm, said));
  // In pieces on all ranks, where it is on one.
  const bool is_any_moved = std::ranges::any_of(all, [](const Said& one) { return one.in_region != 0; });
  MUSTER_RETURN_IF_ERROR(is_any_moved ? reduce_scatter_moved(task) : reduce_scatter_now(task.input, task));
  if (task.scale.after == 1) return base::ok_status();
  return scale(task.output, task.output, task.count, task.type, task.scale.after);
}

base::Status NcclRoute::reduce_scatter_now(const void* in, const ReduceTask& task) {
  const Gpu::Current current(*ground_.gpu);
  return settle(nccl_->reduce_scatter(in, task.output, task.count, nccl_type(task.type), nccl_op(task.type, task.op),
                                      comm_, ground_.stream),
                "ncclReduceScatter");
}

// A piece of every rank's part at a time, scaled on its way into the room by one kernel.
base::Status NcclRoute::reduce_scatter_moved(const ReduceTask& task) {
  const auto ranks = static_cast<std::size_t>(ground_.comm.size());
  const std::size_t most = kRoom / ranks / task.element();  // ranks are at most 2^16
  if (room_.is_empty()) {
    MUSTER_ASSIGN_OR_RETURN(room_, device::allocate(ground_.gpu, kRoom));
  }
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
    MUSTER_RETURN_IF_ERROR(reduce_scatter_now(reinterpret_cast<const void*>(room_.get()), piece));
  }
  return base::ok_status();
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
  return status.ok() ? settle(ended, "ncclGroupEnd") : explain(status);
}

}  // namespace muster::collectives::device
