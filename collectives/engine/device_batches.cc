// The executor's operations on GPU tensors: packing, casting, and the collectives.
// Read attach() and allreduce() first, then pack(), move() and unpack(), then make() and the operations that it calls.
#include "collectives/engine/device_batches.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <numeric>
#include <utility>

#include "collectives/algorithm/slices.h"
#include "collectives/device/nccl_api.h"
#include "collectives/engine/shares.h"

namespace muster::collectives::inline engine {

using device::address_of;
using device::DeviceAddress;
using device::Move;
using device::Route;

DeviceBatches::~DeviceBatches() {
  if (team_ == nullptr || team_->is_quiet()) return;
  zeros_.leave();
  for (device::DeviceMemory& memory : outgrown_) memory.leave();
}

base::Status DeviceBatches::attach(int gpu) {
  if (team_ != nullptr) {
    const int ours = team_->gpu().ordinal();
    if (gpu < 0 || gpu == ours) return base::ok_status();
    // Cancel the communicator, because only this rank fails here, while the other ranks enter the operation.
    const Member& own = comm_->world().member(comm_->world().rank());
    comm_->cancel({base::Code::kInvalidArgument, own.rank, own.host,
                   fmt::format("rank {} ({}) joined on GPU {} and then submitted tensors on GPU {}", own.rank, own.host,
                               ours, gpu)});
    const Failure failure = comm_->failure();
    return {failure.code, failure.message};
  }
  // Under hvdrun, a rank's own GPU has the number of its local rank.
  if (gpu < 0) gpu = comm_->local_rank() % std::max(device::DeviceTeam::count_gpus(), 1);
  MUSTER_ASSIGN_OR_RETURN(team_, device::DeviceTeam::attach(*comm_, gpu));
  return base::ok_status();
}

base::Status DeviceBatches::allreduce(const std::vector<FusedPart>& parts, DType type, const Signature& signature,
                                      std::span<void* const> ready) {
  const ReduceTask task{
      .type = type, .op = signature.op, .scale = {.before = signature.before, .after = signature.after}};
  // Cast only if every rank has kernels, because only a kernel can cast.
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
  if (part.in == nullptr && part.bytes != 0) {  // true if the rank has joined
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
  // Scale tensors before a cast narrows them, and after a cast has widened them again.
  Scale outside;
  if (sent != type || scales_outside(type)) std::swap(outside, task.scale);
  MUSTER_RETURN_IF_ERROR(pack(parts, type, sent, outside.before));
  task.input = task.output = buffer_;
  task.count = bytes / size_of(sent);
  MUSTER_RETURN_IF_ERROR(route.allreduce(task));
  return unpack(parts, type, sent, outside.after);
}

// All ranks need more room at the same time. Each buffer is at least twice as large as the one before. So all old
// buffers together are no larger than the new one.
base::Status DeviceBatches::make_room(Route& route, std::size_t bytes) {
  if (bytes <= room_) return base::ok_status();
  if (buffer_ != nullptr) {
    MUSTER_ASSIGN_OR_RETURN(device::DeviceMemory old, route.release(std::exchange(buffer_, nullptr)));
    outgrown_.push_back(std::move(old));
  }
  room_ = 0;
  const std::size_t wanted = std::bit_ceil(bytes);
  MUSTER_ASSIGN_OR_RETURN(buffer_, route.allocate(wanted));
  room_ = wanted;
  // Clear it once, so that the gaps between tensors are initialised.
  return team_->gpu().call("cuMemsetD8Async", team_->gpu().api().set_async, address_of(buffer_),
                           static_cast<unsigned char>(0), wanted, team_->stream());
}

// Not collective, because only this rank's buffer grows.
base::Result<void*> DeviceBatches::make_zeros(std::size_t bytes) {
  if (bytes > zeros_room_) {
    const std::size_t wanted = std::bit_ceil(bytes);
    MUSTER_ASSIGN_OR_RETURN(device::DeviceMemory made, device::allocate(team_->shared_gpu(), wanted));
    outgrown_.push_back(std::exchange(zeros_, std::move(made)));
    zeros_room_ = wanted;
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

// Launches one kernel. Without kernels it makes one copy for each move; a copy cannot cast.
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

base::Status DeviceBatches::make(const Due& due, const Submission& own, std::span<void* const> ready,
                                 std::vector<Output>& outputs) {
  const Signature& signature = own.signature;
  const auto ranks = static_cast<std::size_t>(comm_->size());
  const auto me = static_cast<std::size_t>(comm_->rank());
  const base::Status done = team_->run(ready, [&](Route& route) {
    for (std::size_t t = 0; t < own.tensors.size(); ++t) {
      const TensorSpec& tensor = signature.tensors[t];
      if (signature.kind == Kind::kReduceScatter) {
        MUSTER_ASSIGN_OR_RETURN(Output output, output_of(own, t, rows_scattered(tensor.rows(), ranks)[me], true));
        outputs.push_back(std::move(output));
        MUSTER_RETURN_IF_ERROR(reduce_scatter(route, own, t, outputs.back()));
      } else if (signature.kind == Kind::kAllgather) {
        const std::vector<std::size_t> rows = rows_gathered(due, t);
        const std::size_t sum = std::reduce(rows.begin(), rows.end());
        MUSTER_ASSIGN_OR_RETURN(Output output, output_of(own, t, sum, sum == ranks * tensor.rows()));
        outputs.push_back(std::move(output));
        MUSTER_RETURN_IF_ERROR(allgather(route, rows, own, t, outputs.back()));
      } else {
        const Exchanged rows = rows_exchanged(due, comm_->rank());
        MUSTER_ASSIGN_OR_RETURN(Output output, output_of(own, t, rows.rows, rows.rows == tensor.rows()));
        outputs.push_back(std::move(output));
        MUSTER_RETURN_IF_ERROR(route.alltoall(own.tensors[t].in, rows.to, outputs.back().on_gpu, rows.from));
      }
    }
    return base::ok_status();
  });
  // If the device did not finish, do not free what it writes to, because freeing would wait for the device.
  const bool is_left = !done.ok() && !team_->is_quiet();
  for (Output& output : outputs) {
    if (is_left) output.memory.leave();
  }
  return done;
}

void DeviceBatches::keep(std::vector<Output> outputs) {
  for (Output& output : outputs) {
    if (!output.memory.is_empty()) outgrown_.push_back(std::move(output.memory));
  }
}

// Returns memory for `rows` rows like those of tensor `t`. `is_as_expected` means that `rows` is the number for which
// the caller may have provided memory.
base::Result<Output> DeviceBatches::output_of(const Submission& own, std::size_t t, std::size_t rows,
                                              bool is_as_expected) const {
  Output output;
  output.spec = own.signature.tensors[t];
  output.spec.shape.front() = static_cast<std::int64_t>(rows);
  const std::size_t bytes = output.spec.bytes();
  if (bytes == 0) return output;
  if (is_as_expected && own.tensors[t].out != nullptr) {
    output.on_gpu = own.tensors[t].out;
    return output;
  }
  if (!own.allocate) {
    MUSTER_ASSIGN_OR_RETURN(output.memory, device::allocate(team_->shared_gpu(), bytes));
    output.on_gpu = reinterpret_cast<void*>(output.memory.get());
    return output;
  }
  // Make this GPU's context current. Otherwise torch chooses a device, which would create a context on GPU 0, too.
  const device::Gpu::Current current(team_->gpu());
  output.on_gpu = own.allocate(static_cast<int>(t), bytes);
  if (output.on_gpu == nullptr) {
    return base::resource_exhausted("'{}': rank {} has no memory on its GPU for a result of {} bytes", own.name,
                                    comm_->world_rank(comm_->rank()), bytes);
  }
  if (device_of(team_->gpu(), output.on_gpu) == team_->gpu().ordinal()) return output;
  return base::invalid_argument("'{}': the memory that rank {} provided for a result is not on GPU {}", own.name,
                                comm_->world_rank(comm_->rank()), team_->gpu().ordinal());
}

// Blocks of different sizes use an alltoall that sends the same block to all ranks.
base::Status DeviceBatches::allgather(Route& route, const std::vector<std::size_t>& rows, const Submission& own,
                                      std::size_t t, const Output& output) {
  if (output.spec.bytes() == 0) return base::ok_status();
  const TensorSpec& tensor = own.signature.tensors[t];
  const bool are_equal = std::ranges::count(rows, rows.front()) == std::ssize(rows);
  if (are_equal) return route.allgather(own.tensors[t].in, output.on_gpu, tensor.bytes());
  const std::vector<Slice> to(rows.size(), {0, tensor.bytes()});
  return route.alltoall(own.tensors[t].in, to, output.on_gpu,
                        blocks_of_rows(rows, tensor.row_elements() * size_of(tensor.type)));
}

base::Status DeviceBatches::reduce_scatter(Route& route, const Submission& own, std::size_t t, const Output& output) {
  const Signature& signature = own.signature;
  const TensorSpec& tensor = signature.tensors[t];
  const auto ranks = static_cast<std::size_t>(comm_->size());
  if (tensor.elements() == 0) return base::ok_status();
  const ReduceTask task{.type = tensor.type,
                        .op = signature.op,
                        .scale = {.before = signature.before, .after = signature.after},
                        .input = own.tensors[t].in,
                        .output = output.on_gpu,
                        .count = tensor.rows() / ranks * tensor.row_elements()};
  const bool is_scaled = signature.before != 1 || signature.after != 1;
  if (tensor.rows() % ranks == 0 && !(is_scaled && scales_outside(tensor.type))) return route.reduce_scatter(task);
  return scatter_spread(route, task, tensor);
}

// Uses NCCL's own reduce-scatter, which needs blocks of equal size. So this spreads the rows over a buffer in which
// every rank has as many rows as the first rank. NCCL reduces the gaps between the rows, too.
base::Status DeviceBatches::scatter_spread(Route& route, ReduceTask task, const TensorSpec& tensor) {
  const std::vector<std::size_t> rows = rows_scattered(tensor.rows(), static_cast<std::size_t>(comm_->size()));
  const auto me = static_cast<std::size_t>(comm_->rank());
  const std::size_t element = size_of(tensor.type);
  task.count = rows.front() * tensor.row_elements();
  const std::size_t block = task.count * element;
  MUSTER_RETURN_IF_ERROR(make_room(route, rows.size() * block));
  Scale outside;
  if (scales_outside(tensor.type)) std::swap(outside, task.scale);
  std::vector<Move> moves;
  DeviceAddress from = address_of(task.input);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    const std::size_t elements = rows[rank] * tensor.row_elements();
    if (elements != 0) moves.push_back({from, address_of(buffer_) + rank * block, elements});
    from += elements * element;
  }
  MUSTER_RETURN_IF_ERROR(move(moves, tensor.type, tensor.type, outside.before));
  const std::size_t elements = rows[me] * tensor.row_elements();
  const DeviceAddress result = address_of(buffer_) + me * block;
  const Move out{result, address_of(task.output), elements};
  task.input = buffer_;
  task.output = reinterpret_cast<void*>(result);
  MUSTER_RETURN_IF_ERROR(route.reduce_scatter(task));
  return elements == 0 ? base::ok_status() : move({out}, tensor.type, tensor.type, outside.after);
}

// NCCL does not scale. So packing and unpacking scale the types that they can scale.
bool DeviceBatches::scales_outside(DType type) const {
  const bool is_float = device::nccl_type(type) >= 6;
  return team_->path() == device::Path::kNccl && is_float;
}

}  // namespace muster::collectives::engine
