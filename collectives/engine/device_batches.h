// The executor's operations on tensors on a GPU. If only the engine knows a result's size, the result goes where the
// caller's Allocate says, or into memory of the engine. Several allreduces share one buffer of the device. One kernel
// packs it and another unpacks it, and both may cast. On the path that reduces buffers in place, that buffer is a
// registered one.
//
// Thread: one. The host waits for the device at the end of each batch, so that a finished ticket has its result.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "collectives/device/device_team.h"
#include "collectives/engine/fused.h"
#include "collectives/engine/negotiation.h"
#include "collectives/engine/signature.h"
#include "collectives/engine/ticket.h"
#include "collectives/group/communicator.h"

namespace muster::collectives::inline engine {

class DeviceBatches {
 public:
  explicit DeviceBatches(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {}
  ~DeviceBatches();
  DeviceBatches(const DeviceBatches&) = delete;
  DeviceBatches& operator=(const DeviceBatches&) = delete;

  // Collective until a call has succeeded. `gpu` is -1 if this rank has no tensors on a GPU; then any GPU will do.
  // FAILED_PRECONDITION or INVALID_ARGUMENT, on all ranks, if a rank cannot use its GPU.
  base::Status attach(int gpu);

  // Call the following only after attach(). `ready` are the events that the device must reach before it reads the
  // tensors. `signature` gives the kind, the reduction, the scale, and the wire type of tensors of `type`. An error
  // means that the communicator has ended.
  base::Status allreduce(const std::vector<FusedPart>& parts, DType type, const Signature& signature,
                         std::span<void* const> ready);
  base::Status broadcast(const Signature& signature, std::span<const Tensor> tensors, std::span<void* const> ready);
  // Does an allgather, reducescatter or alltoall of `own`, and appends an Output for each tensor.
  base::Status make(const Due& due, const Submission& own, std::span<void* const> ready, std::vector<Output>& outputs);
  // Keeps results whose caller has dropped its handle.
  void keep(std::vector<Output> outputs);

 private:
  base::Result<Output> output_of(const Submission& own, std::size_t t, std::size_t rows, bool is_as_expected) const;
  base::Status allgather(device::Route& route, const std::vector<std::size_t>& rows, const Submission& own,
                         std::size_t t, const Output& output);
  base::Status reduce_scatter(device::Route& route, const Submission& own, std::size_t t, const Output& output);
  base::Status scatter_spread(device::Route& route, ReduceTask task, const TensorSpec& tensor);
  bool scales_outside(DType type) const;
  base::Status make_room(device::Route& route, std::size_t bytes);
  base::Result<void*> make_zeros(std::size_t bytes);
  base::Status allreduce_one(device::Route& route, const FusedPart& part, const ReduceTask& task);
  base::Status allreduce_many(device::Route& route, std::vector<FusedPart> parts, ReduceTask task, DType sent);
  base::Status pack(const std::vector<FusedPart>& parts, DType type, DType sent, double scale);
  base::Status unpack(const std::vector<FusedPart>& parts, DType type, DType sent, double scale);
  base::Status move(const std::vector<device::Move>& moves, DType from, DType to, double scale);
  base::Status copy(void* to, const void* from, std::size_t bytes);

  const std::shared_ptr<Communicator> comm_;
  // Memory that has become too small, or whose caller has dropped its handle. It is kept, because freeing it would wait
  // for the caller's streams, and these streams may wait for this thread.
  std::vector<device::DeviceMemory> outgrown_;
  device::DeviceMemory zeros_;
  std::size_t zeros_room_ = 0;
  std::unique_ptr<device::DeviceTeam> team_;  // must end before the memory above
  void* buffer_ = nullptr;                    // allocated by the team's route
  std::size_t room_ = 0;
};

}  // namespace muster::collectives::engine
