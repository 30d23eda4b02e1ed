// What the executor does with tensors on a GPU. Results of other sizes go where the caller says, or into memory of
// their own. Many allreduces go through one buffer of the device, which one kernel packs and another unpacks, casting
// on the way where that is wanted; on the path that reduces where buffers lie, that one is such a buffer.
//
// One thread. The host waits for the device at the end of each batch, so that a ticket that is done says how it went.
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

  // Collective the first time, and until it succeeds. -1: this rank has nothing there, any GPU will do.
  // FAILED_PRECONDITION or INVALID_ARGUMENT, on all ranks: one of them cannot use its GPU.
  base::Status attach(int gpu);

  // The following after attach(); `ready` is what the device has to come to before it reads the tensors. An error has
  // ended the communicator.
  // `signature`: what its kind, reduction and scale are, and as what tensors of `type` travel.
  base::Status allreduce(const std::vector<FusedPart>& parts, DType type, const Signature& signature,
                         std::span<void* const> ready);
  base::Status broadcast(const Signature& signature, std::span<const Tensor> tensors, std::span<void* const> ready);
  // An allgather, reducescatter or alltoall of `own`, which appends an Output for each tensor.
  base::Status make(const Due& due, const Submission& own, std::span<void* const> ready, std::vector<Output>& outputs);
  // Results that nobody wants.
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
  // Too small by now, or nobody's. Kept: to free it would wait for streams of the caller's, and these perhaps for this
  // thread.
  std::vector<device::DeviceMemory> outgrown_;
  device::DeviceMemory zeros_;
  std::size_t zeros_room_ = 0;
  std::unique_ptr<device::DeviceTeam> team_;  // ends first
  void* buffer_ = nullptr;                    // of the team's route
  std::size_t room_ = 0;
};

}  // namespace muster::collectives::engine
