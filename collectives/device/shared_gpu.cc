// Collectives over memory that ranks map by CUDA IPC: sharing, meeting, and the operations. Read make() and the
// destructor first, then meet(), offer() and consume(), then the operations.
#include "collectives/device/shared_gpu.h"

#include <algorithm>
#include <atomic>
#include <chrono>

#include "collectives/algorithm/slices.h"
#include "collectives/transport/rank_index.h"

namespace muster::collectives::device {
namespace {

using Closed = std::atomic_ref<std::uint32_t>;

// Returns the bytes from `at` to `size`, but at most `most`.
std::size_t left_of(std::size_t size, std::size_t at, std::size_t most) {
  return at < size ? std::min(size - at, most) : 0;
}

// Returns whether a rank has failed. A rank that left in good order, as in an engine's shutdown, has not failed.
bool has_failed(const Failure& why) {
  return why.rank >= 0 && why.code != base::Code::kAborted;
}

}  // namespace

base::Result<std::unique_ptr<Route>> SharedGpu::make(const Ground& ground, std::size_t share) {
  std::unique_ptr<SharedGpu> made(new SharedGpu(ground, share));
  MUSTER_RETURN_IF_ERROR(made->start());
  MUSTER_RETURN_IF_ERROR(made->start_sharing());
  return std::unique_ptr<Route>(std::move(made));
}

base::Status SharedGpu::start_sharing() {
  MUSTER_ASSIGN_OR_RETURN(closed_, ground_.comm.allocate(sizeof(std::uint32_t)));
  MUSTER_ASSIGN_OR_RETURN(reached_, make_event(ground_.gpu));
  const auto shared = memory_.share(share_);
  const bool is_lack = shared.status().code() == base::Code::kResourceExhausted;
  if (is_lack) return base::Status(base::Code::kFailedPrecondition, shared.status().message());
  MUSTER_ASSIGN_OR_RETURN(const std::uint32_t region, shared);
  const std::size_t ranks = rank_index(ground_.comm.size());
  part_ = share_ / ranks / 64 * 64;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    rooms_.push_back(memory_.address(rank, {.region = region}, share_));
  }
  return base::ok_status();
}

// Freeing memory that another process has mapped is undefined, according to the driver's documentation. So wait until
// all have unmapped it. An ended communicator does not show a failure, since each rank of an engine ends its
// communicator in good order. If a rank has failed, it may never unmap anything. The flags in the shared memory are no
// longer reliable then, so leave the memory to the driver.
SharedGpu::~SharedGpu() {
  memory_.close();
  if (closed_ == nullptr) return;
  Closed(*reinterpret_cast<std::uint32_t*>(closed_)).store(1);
  if (rooms_.empty()) return;  // nothing was shared
  const bool have_closed = ground_.comm.world().shutdown_budget().wait([this](std::chrono::milliseconds time) {
    const auto end = std::chrono::steady_clock::now() + time;
    const Pace pace;
    while (!have_all_closed()) {
      if (std::chrono::steady_clock::now() > end || has_failed(ground_.comm.failure())) return false;
      pace.rest();
    }
    return true;
  });
  if (!have_closed) memory_.leave();
}

bool SharedGpu::have_all_closed() const {
  for (int rank = 0; rank < ground_.comm.local_size(); ++rank) {
    std::byte* const flag = ground_.comm.registered(rank, closed_, sizeof(std::uint32_t));
    if (flag == nullptr || Closed(*reinterpret_cast<std::uint32_t*>(flag)).load() == 0) return false;
  }
  return true;
}

base::Result<void*> SharedGpu::allocate(std::size_t bytes) {
  Communicator& comm = ground_.comm;
  const auto region = memory_.share(bytes);
  if (region.status().code() == base::Code::kResourceExhausted) {
    // All ranks know which rank caused it.
    const Member& lacking = comm.world().member(comm.world_rank(memory_.lacking()));
    comm.cancel({base::Code::kResourceExhausted, lacking.rank, lacking.host, region.status().message()});
  }
  MUSTER_RETURN_IF_ERROR(region.status());
  return reinterpret_cast<void*>(memory_.address(rank_index(comm.rank()), {.region = *region}, bytes));
}

base::Result<DeviceMemory> SharedGpu::release(void* memory) {
  if (memory_.release(address_of(memory))) return DeviceMemory();
  return base::invalid_argument("not a buffer of communicator {}", ground_.comm.name());
}

base::Result<std::vector<CallHeader>> SharedGpu::meet(const Call& call, const IpcMemory::Place& in,
                                                      const IpcMemory::Place& out) {
  // Buffers used in place must be ready before other ranks use them. offer() makes the data in the rooms ready.
  if (in.region != 0 || out.region != 0) MUSTER_RETURN_IF_ERROR(reach());
  return agree(ground_.comm, {.call = call,
                              .in_region = in.region,
                              .out_region = out.region,
                              .in_offset = in.offset,
                              .out_offset = out.offset});
}

base::Result<DeviceAddress> SharedGpu::source(const std::vector<CallHeader>& all, std::size_t rank,
                                              std::size_t bytes) const {
  if (all[rank].in_region == 0) return DeviceAddress{0};
  const DeviceAddress found = memory_.address(rank, {all[rank].in_region, all[rank].in_offset}, bytes);
  if (found != 0) return found;
  return base::internal_error("rank {} names a buffer that it does not have",
                              ground_.comm.world_rank(static_cast<int>(rank)));
}

base::Status SharedGpu::reach() {
  MUSTER_RETURN_IF_ERROR(
      ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, reached_.get(), ground_.stream));
  return wait_until_done(ground_, reached_.get());
}

base::Status SharedGpu::offer() {
  MUSTER_RETURN_IF_ERROR(reach());
  return ground_.comm.barrier();
}

template <class Work>
base::Status SharedGpu::consume(const Work& work) {
  MUSTER_RETURN_IF_ERROR(work());
  MUSTER_RETURN_IF_ERROR(reach());
  return ground_.comm.barrier();
}

base::Status SharedGpu::reduce(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                               const ReduceTask& task, std::size_t count) {
  Scale scale = task.scale;
  if (task.op == RedOp::kAvg) scale.divisor = static_cast<std::uint32_t>(ground_.comm.size());
  return ground_.kernels->reduce(ground_.stream, in, out, count, task.type, task.op, scale);
}

base::Status SharedGpu::reduce_slice(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                                     const ReduceTask& task, std::size_t count) {
  const Slice slice = slice_of(count * task.element(), ground_.comm.size(), ground_.comm.rank());
  std::vector<DeviceAddress> from;
  std::vector<DeviceAddress> to;
  for (const DeviceAddress address : in) from.push_back(address + slice.begin);
  for (const DeviceAddress address : out) to.push_back(address + slice.begin);
  return reduce(from, to, task, slice.size / task.element());
}

// Uses the widest element size that fits all moves, since a block of a kernel moves a fixed number of elements.
base::Status SharedGpu::move(std::vector<Move> moves) {
  std::erase_if(moves, [](const Move& one) { return one.elements == 0 || one.from == one.to; });
  DeviceAddress all = 0;
  for (const Move& one : moves) all |= one.from | one.to | one.elements;
  const DType type = all % 8 == 0 ? DType::kI64 : all % 4 == 0 ? DType::kI32 : all % 2 == 0 ? DType::kI16 : DType::kU8;
  for (Move& one : moves) one.elements /= size_of(type);
  return ground_.kernels->transfer(ground_.stream, moves, type, type);
}

base::Status SharedGpu::allreduce(const ReduceTask& task) {
  const IpcMemory::Place own_out = memory_.find(task.output, task.bytes());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all,
                          meet(call_of(Op::kAllreduce, task), memory_.find(task.input, task.bytes()), own_out));
  if (task.count == 0) return base::ok_status();
  std::vector<DeviceAddress> in;
  std::vector<DeviceAddress> out;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const DeviceAddress from, source(all, rank, task.bytes()));
    in.push_back(from);
    out.push_back(memory_.address(rank, {all[rank].out_region, all[rank].out_offset}, task.bytes()));
  }
  if (std::ranges::count(in, 0U) + std::ranges::count(out, 0U) == 0) {
    return consume([&] { return reduce_slice(in, out, task, task.count); });
  }
  const DeviceAddress own = room(rank_index(ground_.comm.rank()));
  for (std::size_t at = 0; at < task.bytes(); at += share_) {
    const std::size_t bytes = left_of(task.bytes(), at, share_);
    MUSTER_RETURN_IF_ERROR(move({{address_of(task.in() + at), own, bytes}}));
    MUSTER_RETURN_IF_ERROR(offer());
    MUSTER_RETURN_IF_ERROR(consume([&] { return reduce_slice(rooms_, rooms_, task, bytes / task.element()); }));
    MUSTER_RETURN_IF_ERROR(move({{own, address_of(task.out() + at), bytes}}));
  }
  return base::ok_status();
}

base::Status SharedGpu::broadcast(void* data, std::size_t bytes, int root) {
  const bool is_root = ground_.comm.rank() == root;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all,
                          meet({.count = bytes, .root = root, .op = Op::kBroadcast, .type = DType::kU8},
                               is_root ? memory_.find(data, bytes) : IpcMemory::Place{}));
  MUSTER_ASSIGN_OR_RETURN(const DeviceAddress shared, source(all, rank_index(root), bytes));
  const std::size_t piece = shared != 0 ? bytes : share_;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t now = left_of(bytes, at, piece);
    const DeviceAddress own = address_of(data) + at;
    const DeviceAddress from = shared != 0 ? shared : room(rank_index(root));
    if (shared == 0) {
      if (is_root) MUSTER_RETURN_IF_ERROR(move({{own, from, now}}));
      MUSTER_RETURN_IF_ERROR(offer());
    }
    MUSTER_RETURN_IF_ERROR(consume([&] { return is_root ? base::ok_status() : move({{from, own, now}}); }));
  }
  return base::ok_status();
}

// If a rank's input lies in a buffer of allocate(), it stays there, even if other ranks copy theirs.
base::Status SharedGpu::allgather(const void* in, void* out, std::size_t bytes) {
  const std::size_t me = rank_index(ground_.comm.rank());
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all,
                          meet({.count = bytes, .op = Op::kAllgather, .type = DType::kU8}, memory_.find(in, bytes)));
  std::vector<DeviceAddress> shared;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const DeviceAddress from, source(all, rank, bytes));
    shared.push_back(from);
  }
  const bool are_shared = std::ranges::count(shared, 0U) == 0;
  const std::size_t piece = are_shared ? bytes : share_;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t now = left_of(bytes, at, piece);
    if (!are_shared) {
      if (shared[me] == 0) MUSTER_RETURN_IF_ERROR(move({{address_of(in) + at, room(me), now}}));
      MUSTER_RETURN_IF_ERROR(offer());
    }
    std::vector<Move> moves;
    for (std::size_t rank = 0; rank < shared.size(); ++rank) {
      const DeviceAddress from = rank == me ? address_of(in) + at : shared[rank] != 0 ? shared[rank] + at : room(rank);
      moves.push_back({from, address_of(out) + rank * bytes + at, now});
    }
    MUSTER_RETURN_IF_ERROR(consume([&] { return move(moves); }));
  }
  return base::ok_status();
}

base::Status SharedGpu::reduce_scatter(const ReduceTask& task) {
  const std::size_t ranks = rank_index(ground_.comm.size());
  const std::size_t me = rank_index(ground_.comm.rank());
  const std::size_t bytes = task.bytes();  // of each rank
  // An output inside the input is written while other ranks still read there, unless it is this rank's own part.
  const bool is_disjoint = task.out() + bytes <= task.in() || task.in() + ranks * bytes <= task.out();
  const bool is_shared = is_disjoint || task.out() == task.in() + me * bytes;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<CallHeader> all,
                          meet(call_of(Op::kReduceScatter, task),
                               is_shared ? memory_.find(task.input, ranks * bytes) : IpcMemory::Place{}));
  std::vector<DeviceAddress> shared;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    MUSTER_ASSIGN_OR_RETURN(const DeviceAddress from, source(all, rank, ranks * bytes));
    shared.push_back(from);
  }
  const bool are_shared = std::ranges::count(shared, 0U) == 0;
  const std::size_t piece = are_shared ? bytes : part_;
  for (std::size_t at = 0; at < bytes; at += piece) {
    const std::size_t now = left_of(bytes, at, piece);
    std::vector<Move> moves;
    std::vector<DeviceAddress> from;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      moves.push_back({address_of(task.in() + rank * bytes + at), room(me, rank), now});
      from.push_back(shared[rank] != 0 ? shared[rank] + me * bytes + at : room(rank, me));
    }
    if (!are_shared) {
      if (shared[me] == 0) MUSTER_RETURN_IF_ERROR(move(std::move(moves)));
      MUSTER_RETURN_IF_ERROR(offer());
    }
    MUSTER_RETURN_IF_ERROR(
        consume([&] { return reduce(from, {address_of(task.out() + at)}, task, now / task.element()); }));
  }
  return base::ok_status();
}

base::Status SharedGpu::alltoall(const void* in, Blocks to, void* out, Blocks from) {
  const std::size_t me = rank_index(ground_.comm.rank());
  MUSTER_ASSIGN_OR_RETURN(const std::size_t most, agree_on_blocks(ground_.comm, to, from));
  for (std::size_t at = 0; at < most; at += part_) {
    std::vector<Move> moves;
    for (std::size_t rank = 0; rank < to.size(); ++rank) {
      if (rank == me) continue;
      moves.push_back({address_of(in) + to[rank].begin + at, room(me, rank), left_of(to[rank].size, at, part_)});
    }
    MUSTER_RETURN_IF_ERROR(move(std::move(moves)));
    MUSTER_RETURN_IF_ERROR(offer());
    moves.clear();
    for (std::size_t rank = 0; rank < from.size(); ++rank) {
      const DeviceAddress source = rank == me ? address_of(in) + to[me].begin + at : room(rank, me);
      moves.push_back({source, address_of(out) + from[rank].begin + at, left_of(from[rank].size, at, part_)});
    }
    MUSTER_RETURN_IF_ERROR(consume([&] { return move(std::move(moves)); }));
  }
  return base::ok_status();
}

}  // namespace muster::collectives::device
