// Collectives through pinned host memory: chunks that move down, are reduced, and move up.
// Read start() and the functions from begin() to finish() first, then allreduce(), which uses all of them.
#include "collectives/device/staged.h"

#include "collectives/transport/rank_index.h"

#include <algorithm>
#include <utility>

namespace muster::collectives::device {
namespace {}  // namespace

base::Result<std::unique_ptr<Route>> Staged::make(const Ground& ground) {
  std::unique_ptr<Staged> made(new Staged(ground));
  MUSTER_RETURN_IF_ERROR(made->start());
  return std::unique_ptr<Route>(std::move(made));
}

base::Status Staged::start() {
  MUSTER_ASSIGN_OR_RETURN(room_, ground_.comm.allocate(kSlots * kChunk));
  auto pinned = pin(ground_.gpu, room_, kSlots * kChunk);
  if (!pinned.ok()) {
    return pinned.status().with_context("cannot pin the host memory for GPU data (see `ulimit -l`)");
  }
  pinned_ = std::move(*pinned);
  MUSTER_ASSIGN_OR_RETURN(up_, make_stream(ground_.gpu));
  MUSTER_ASSIGN_OR_RETURN(begun_, make_event(ground_.gpu));
  for (std::size_t i = 0; i < kSlots; ++i) {
    MUSTER_ASSIGN_OR_RETURN(is_down_[i], make_event(ground_.gpu));
    MUSTER_ASSIGN_OR_RETURN(is_up_[i], make_event(ground_.gpu));
  }
  return base::ok_status();
}

// Makes copies to the device wait for all work that the caller has enqueued before this operation.
base::Status Staged::begin() {
  const CudaApi& api = ground_.gpu->api();
  MUSTER_RETURN_IF_ERROR(ground_.gpu->call("cuEventRecord", api.event_record, begun_.get(), ground_.stream));
  return ground_.gpu->call("cuStreamWaitEvent", api.stream_wait_event, up_.get(), begun_.get(), 0U);
}

base::Status Staged::gather() {
  const CudaApi& api = ground_.gpu->api();
  MUSTER_RETURN_IF_ERROR(ground_.gpu->call("cuEventRecord", api.event_record, begun_.get(), up_.get()));
  return ground_.gpu->call("cuStreamWaitEvent", api.stream_wait_event, ground_.stream, begun_.get(), 0U);
}

base::Status Staged::down(std::size_t chunk, const std::byte* from, std::size_t bytes, std::byte* to) {
  const CudaApi& api = ground_.gpu->api();
  MUSTER_RETURN_IF_ERROR(
      ground_.gpu->call("cuStreamWaitEvent", api.stream_wait_event, ground_.stream, is_up_[chunk % kSlots].get(), 0U));
  if (bytes == 0) return base::ok_status();
  return ground_.gpu->call("a copy from the GPU (cuMemcpyAsync)", api.copy_async, address_of(to), address_of(from),
                           bytes, ground_.stream);
}

base::Status Staged::mark_down(std::size_t chunk) {
  return ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, is_down_[chunk % kSlots].get(),
                           ground_.stream);
}

base::Status Staged::wait_for_down(std::size_t chunk) {
  return wait_until_done(ground_, is_down_[chunk % kSlots].get());
}

base::Status Staged::up(const std::byte* from, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return base::ok_status();
  return ground_.gpu->call("a copy to the GPU (cuMemcpyAsync)", ground_.gpu->api().copy_async, address_of(to),
                           address_of(from), bytes, up_.get());
}

base::Status Staged::mark_up(std::size_t chunk) {
  return ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, is_up_[chunk % kSlots].get(), up_.get());
}

base::Status Staged::wait_for_up(std::size_t chunk) {
  return wait_until_done(ground_, is_up_[chunk % kSlots].get());
}

// Makes the rank's stream wait until all chunks are copied to the device.
base::Status Staged::finish() {
  for (const Event& is_up : is_up_) {
    MUSTER_RETURN_IF_ERROR(
        ground_.gpu->call("cuStreamWaitEvent", ground_.gpu->api().stream_wait_event, ground_.stream, is_up.get(), 0U));
  }
  return base::ok_status();
}

base::Status Staged::allreduce(const ReduceTask& task) {
  const std::size_t bytes = task.bytes();
  const std::size_t chunks = std::max<std::size_t>((bytes + kChunk - 1) / kChunk, 1);
  const auto size_of_chunk = [&](std::size_t chunk) { return std::min(kChunk, bytes - chunk * kChunk); };
  MUSTER_RETURN_IF_ERROR(begin());
  for (std::size_t turn = 0; turn <= chunks; ++turn) {
    if (turn < chunks) {
      MUSTER_RETURN_IF_ERROR(down(turn, task.in() + turn * kChunk, size_of_chunk(turn), slot(turn)));
      MUSTER_RETURN_IF_ERROR(mark_down(turn));
    }
    if (turn == 0) continue;
    const std::size_t chunk = turn - 1;
    const std::size_t count = size_of_chunk(chunk) / task.element();
    MUSTER_RETURN_IF_ERROR(wait_for_down(chunk));
    MUSTER_RETURN_IF_ERROR(ground_.comm.allreduce(slot(chunk), slot(chunk), count, task.type, task.op, task.scale));
    MUSTER_RETURN_IF_ERROR(up(slot(chunk), task.out() + chunk * kChunk, size_of_chunk(chunk)));
    MUSTER_RETURN_IF_ERROR(mark_up(chunk));
  }
  return finish();
}

base::Status Staged::broadcast(void* data, std::size_t bytes, int root) {
  auto* const all = static_cast<std::byte*>(data);
  const bool is_root = ground_.comm.rank() == root;
  MUSTER_RETURN_IF_ERROR(begin());
  std::size_t chunk = 0;
  for (std::size_t at = 0; at == 0 || at < bytes; at += kChunk, ++chunk) {
    const std::size_t now = std::min(kChunk, bytes - at);
    if (is_root) {
      MUSTER_RETURN_IF_ERROR(down(chunk, all + at, now, slot(chunk)));
      MUSTER_RETURN_IF_ERROR(mark_down(chunk));
      MUSTER_RETURN_IF_ERROR(wait_for_down(chunk));
    } else {
      MUSTER_RETURN_IF_ERROR(wait_for_up(chunk));
    }
    MUSTER_RETURN_IF_ERROR(ground_.comm.broadcast(slot(chunk), now, DType::kU8, root));
    if (is_root) continue;
    MUSTER_RETURN_IF_ERROR(up(slot(chunk), all + at, now));
    MUSTER_RETURN_IF_ERROR(mark_up(chunk));
  }
  return finish();
}

base::Status Staged::allgather(const void* in, void* out, std::size_t bytes) {
  const std::size_t ranks = rank_index(ground_.comm.size());
  const std::size_t own = rank_index(ground_.comm.rank());
  const std::size_t most = kChunk / ranks;  // ranks are at most 2^16
  MUSTER_RETURN_IF_ERROR(begin());
  std::size_t chunk = 0;
  for (std::size_t at = 0; at == 0 || at < bytes; at += most, ++chunk) {
    const std::size_t now = std::min(most, bytes - at);
    std::byte* const blocks = slot(chunk);
    MUSTER_RETURN_IF_ERROR(wait_for_up(chunk));  // the collective below writes to this slot, too
    MUSTER_RETURN_IF_ERROR(down(chunk, static_cast<const std::byte*>(in) + at, now, blocks + own * now));
    MUSTER_RETURN_IF_ERROR(mark_down(chunk));
    MUSTER_RETURN_IF_ERROR(wait_for_down(chunk));
    const std::vector<std::size_t> counts(ranks, now);
    MUSTER_RETURN_IF_ERROR(ground_.comm.allgather(blocks + own * now, blocks, counts, DType::kU8, true));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      MUSTER_RETURN_IF_ERROR(up(blocks + rank * now, static_cast<std::byte*>(out) + rank * bytes + at, now));
    }
    MUSTER_RETURN_IF_ERROR(mark_up(chunk));
  }
  return finish();
}

base::Status Staged::reduce_scatter(const ReduceTask& task) {
  const std::size_t ranks = rank_index(ground_.comm.size());
  const std::size_t most = kChunk / ranks / task.element();  // elements of each rank at once
  MUSTER_RETURN_IF_ERROR(begin());
  for (std::size_t at = 0; at == 0 || at < task.count; at += most) {
    const std::size_t now = std::min(most, task.count - at);
    const std::size_t bytes = now * task.element();
    // The first slot holds inputs, the second one the result.
    MUSTER_RETURN_IF_ERROR(wait_for_up(1));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::byte* const from = task.in() + (rank * task.count + at) * task.element();
      MUSTER_RETURN_IF_ERROR(down(0, from, bytes, slot(0) + rank * bytes));
    }
    MUSTER_RETURN_IF_ERROR(mark_down(0));
    MUSTER_RETURN_IF_ERROR(wait_for_down(0));
    const std::vector<std::size_t> counts(ranks, now);
    MUSTER_RETURN_IF_ERROR(ground_.comm.reduce_scatter(slot(0), slot(1), counts, task.type, task.op, task.scale));
    MUSTER_RETURN_IF_ERROR(up(slot(1), task.out() + at * task.element(), bytes));
    MUSTER_RETURN_IF_ERROR(mark_up(1));
  }
  return finish();
}

base::Status Staged::alltoall(const void* in, Blocks to, void* out, Blocks from) {
  const std::size_t ranks = to.size();
  const std::size_t part = kChunk / ranks;  // the part of a slot for each rank
  MUSTER_ASSIGN_OR_RETURN(const std::size_t most, agree_on_blocks(ground_.comm, to, from));
  MUSTER_RETURN_IF_ERROR(begin());
  std::vector<Slice> down_blocks(ranks);
  std::vector<Slice> up_blocks(ranks);
  for (std::size_t at = 0; at < most; at += part) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto left = [&](std::size_t size) { return size < at ? 0 : std::min(size - at, part); };
      down_blocks[rank] = {rank * part, left(to[rank].size)};
      up_blocks[rank] = {rank * part, left(from[rank].size)};
    }
    // The first slot holds the sent blocks, the second one the received blocks.
    MUSTER_RETURN_IF_ERROR(wait_for_up(1));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::byte* const source = static_cast<const std::byte*>(in) + to[rank].begin + at;
      MUSTER_RETURN_IF_ERROR(down(0, source, down_blocks[rank].size, slot(0) + down_blocks[rank].begin));
    }
    MUSTER_RETURN_IF_ERROR(mark_down(0));
    MUSTER_RETURN_IF_ERROR(wait_for_down(0));
    MUSTER_RETURN_IF_ERROR(ground_.comm.alltoall(slot(0), down_blocks, slot(1), up_blocks, DType::kU8, 0));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::byte* const target = static_cast<std::byte*>(out) + from[rank].begin + at;
      MUSTER_RETURN_IF_ERROR(up(slot(1) + up_blocks[rank].begin, target, up_blocks[rank].size));
    }
    MUSTER_RETURN_IF_ERROR(mark_up(1));
  }
  return finish();
}

base::Result<void*> Staged::allocate(std::size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(DeviceMemory memory, device::allocate(ground_.gpu, std::max<std::size_t>(bytes, 1)));
  void* const data = reinterpret_cast<void*>(memory.get());
  allocated_[data] = std::move(memory);
  return data;
}

base::Result<DeviceMemory> Staged::release(void* memory) {
  if (auto found = allocated_.extract(memory); !found.empty()) return std::move(found.mapped());
  return base::invalid_argument("not a buffer of communicator {}", ground_.comm.name());
}

}  // namespace muster::collectives::device
