#include "collectives/engine/device_batches.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "collectives/algorithm/slices.h"
#include "collectives/device/nccl_api.h"

namespace muster::collectives {

using device::address_of;
using device::DeviceAddress;
using device::Move;
using device::Route;

base::Status DeviceBatches::attach(int gpu) {
  if (team_ != nullptr) return base::ok_status();
  // Under hvdrun a rank's own GPU is the one of its local rank's number.
  if (gpu < 0) gpu = comm_->local_rank() % std::max(device::DeviceTeam::count_gpus(), 1);
  MUSTER_ASSIGN_OR_RETURN(team_, device::DeviceTeam::attach(*comm_, gpu));
  return base::ok_status();
}

base::Status DeviceBatches::allreduce(const std::vector<FusedPart>& parts, DType type, const Signature& signature,
                                      std::span<void* const> ready) {
  const ReduceTask task{
      .type = type, .op = signature.op, .scale = {.before = signature.before, .after = signature.after}};
  // Without kernels nothing is cast here, and on all ranks alike.
  const DType sent = team_->all_have_kernels() ? signature.wire.value_or(type) : type;
  return team_->run(ready, [&](Route& route) {
    if (parts.size() == 1 && sent == type) return allreduce_one(route, parts.front(), task);
    return allreduce_many(route, parts, task, sent);
  });
}

base::Status DeviceBatches::allreduce_one(Route& route, const FusedPart& part, const ReduceTask& task) {
  ReduceTask own = task;
  own.input = part.in;
  own.output = part.out;
  own.count = part.bytes / size_of(task.type);
  if (part.in == nullptr && part.bytes != 0) {  // this rank has joined
    MUSTER_ASSIGN_OR_RETURN(void* const zeros, make_zeros(part.bytes));
    own.input = own.output = zeros;
  }
  return route.allreduce(own);
}

base::Status DeviceBatches::allreduce_many(Route& route, std::vector<FusedPart> parts, ReduceTask task, DType sent) {
  const DType type = std::exchange(task.type, sent);
  std::size_t bytes = 0;
  for (FusedPart& part : parts) {
    part.begin = bytes;
    bytes += padded(part.bytes / size_of(type) * size_of(sent));
  }
  MUSTER_RETURN_IF_ERROR(make_room(route, bytes));
  // What is cast is scaled before it becomes small, and after it has become large again. NCCL does not scale: packing
  // and unpacking do, where they can.
  const bool is_float = device::nccl_type(type) >= 6;
  Scale outside;
  if (sent != type || (team_->path() == device::Path::kNccl && is_float)) std::swap(outside, task.scale);
  MUSTER_RETURN_IF_ERROR(pack(parts, type, sent, outside.before));
  task.input = task.output = buffer_;
  task.count = bytes / size_of(sent);
  MUSTER_RETURN_IF_ERROR(route.allreduce(task));
  return unpack(parts, type, sent, outside.after);
}

// All ranks need it at the same time. Twice as large each time, as others may keep the old one mapped.
base::Status DeviceBatches::make_room(Route& route, std::size_t bytes) {
  if (bytes <= room_) return base::ok_status();
  if (buffer_ != nullptr) MUSTER_RETURN_IF_ERROR(route.release(buffer_));
  buffer_ = nullptr;
  room_ = 0;
  const std::size_t wanted = std::bit_ceil(bytes);
  MUSTER_ASSIGN_OR_RETURN(buffer_, route.allocate(wanted));
  room_ = wanted;
  // Once, so that what lies between tensors is written.
  return team_->gpu().call("cuMemsetD8Async", team_->gpu().api().set_async, address_of(buffer_),
                           static_cast<unsigned char>(0), wanted, team_->stream());
}

// Of this rank alone.
base::Result<void*> DeviceBatches::make_zeros(std::size_t bytes) {
  if (bytes > zeros_room_) {
    zeros_ = {};
    zeros_room_ = 0;
    MUSTER_ASSIGN_OR_RETURN(zeros_, device::allocate(team_->shared_gpu(), bytes));
    zeros_room_ = bytes;
  }
  MUSTER_RETURN_IF_ERROR(team_->gpu().call("cuMemsetD8Async", team_->gpu().api().set_async, zeros_.get(),
                                           static_cast<unsigned char>(0), bytes, team_->stream()));
  return reinterpret_cast<void*>(zeros_.get());
}

base::Status DeviceBatches::pack(const std::vector<FusedPart>& parts, DType type, DType sent, double scale) {
  std::vector<Move> moves;
  for (const FusedPart& part : parts) {
    moves.push_back({address_of(part.in), address_of(buffer_) + part.begin, part.bytes / size_of(type)});
  }
  return move(moves, type, sent, scale);
}

base::Status DeviceBatches::unpack(const std::vector<FusedPart>& parts, DType type, DType sent, double scale) {
  std::vector<Move> moves;
  for (const FusedPart& part : parts) {
    if (part.out == nullptr) continue;
    moves.push_back({address_of(buffer_) + part.begin, address_of(part.out), part.bytes / size_of(type)});
  }
  return move(moves, sent, type, scale);
}

// One launch; without kernels one copy for each, from a type to the same one.
base::Status DeviceBatches::move(const std::vector<Move>& moves, DType from, DType to, double scale) {
  if (team_->kernels() != nullptr) return team_->kernels()->transfer(team_->stream(), moves, from, to, scale);
  const device::Gpu& gpu = team_->gpu();
  for (const Move& one : moves) {
    const std::size_t bytes = one.elements * size_of(from);
    if (bytes == 0) continue;
    MUSTER_RETURN_IF_ERROR(one.from != 0 ? gpu.call("a copy on the GPU (cuMemcpyAsync)", gpu.api().copy_async, one.to,
                                                    one.from, bytes, team_->stream())
                                         : gpu.call("cuMemsetD8Async", gpu.api().set_async, one.to,
                                                    static_cast<unsigned char>(0), bytes, team_->stream()));
  }
  return base::ok_status();
}

base::Status DeviceBatches::copy(void* to, const void* from, std::size_t bytes) {
  return team_->gpu().call("a copy on the GPU (cuMemcpyAsync)", team_->gpu().api().copy_async, address_of(to),
                           address_of(from), bytes, team_->stream());
}

base::Status DeviceBatches::broadcast(const Signature& signature, std::span<const Tensor> tensors,
                                      std::span<void* const> ready) {
  return team_->run(ready, [&](Route& route) {
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      const Tensor& own = tensors[t];
      const std::size_t bytes = signature.tensors[t].bytes();
      const bool is_copied = comm_->rank() == signature.root && own.out != own.in && bytes != 0;
      if (is_copied) MUSTER_RETURN_IF_ERROR(copy(own.out, own.in, bytes));
      MUSTER_RETURN_IF_ERROR(route.broadcast(own.out, bytes, signature.root));
    }
    return base::ok_status();
  });
}

}  // namespace muster::collectives
