// Collectives through host memory. Data moves down to pinned memory that the ranks of a host share. The collective for
// the processor runs there, and the result moves up again. The route works in chunks of 4 MiB. While one chunk is
// reduced, the next moves down and the one before moves up.
#pragma once

#include <array>
#include <map>
#include <memory>

#include "collectives/device/route.h"

namespace muster::collectives::device {

class Staged : public Route {
 public:
  // Collective.
  static base::Result<std::unique_ptr<Route>> make(const Ground& ground);

  base::Status allreduce(const ReduceTask& task) override;
  base::Status broadcast(void* data, std::size_t bytes, int root) override;
  base::Status allgather(const void* in, void* out, std::size_t bytes) override;
  base::Status reduce_scatter(const ReduceTask& task) override;
  base::Status alltoall(const void* in, Blocks to, void* out, Blocks from) override;
  base::Result<void*> allocate(std::size_t bytes) override;
  base::Result<DeviceMemory> release(void* memory) override;
  base::Status gather() override;

 protected:
  explicit Staged(const Ground& ground) : ground_(ground) {}
  base::Status start();

  const Ground& ground_;

 private:
  static constexpr std::size_t kChunk = std::size_t{4} << 20;
  static constexpr std::size_t kSlots = 3;
  std::byte* slot(std::size_t chunk) const { return room_ + chunk % kSlots * kChunk; }
  base::Status begin();
  base::Status down(std::size_t chunk, const std::byte* from, std::size_t bytes, std::byte* to);
  base::Status mark_down(std::size_t chunk);
  base::Status wait_for_down(std::size_t chunk);
  base::Status up(const std::byte* from, std::byte* to, std::size_t bytes);
  base::Status mark_up(std::size_t chunk);
  base::Status wait_for_up(std::size_t chunk);
  base::Status finish();

  std::byte* room_ = nullptr;  // belongs to the communicator
  HostMemory pinned_;
  Stream up_;
  Event begun_;
  std::array<Event, kSlots> is_down_;
  std::array<Event, kSlots> is_up_;
  std::map<void*, DeviceMemory> allocated_;
};

}  // namespace muster::collectives::device
