// Ranks of one host, each of whose GPUs maps the others' memory by CUDA IPC; mostly they share one GPU. A rank's kernel
// reduces its slice of all ranks' buffers in one pass and stores it to all of them: with p ranks the device reads p
// inputs and writes p outputs, 2 p S bytes.
//
// Buffers of allocate() are reduced where they lie. Others go through a buffer of 2 * 32 MiB that all ranks have
// mapped, which is two copies more. Processes that share a GPU take turns on it: kernels wait for nobody, they are
// ordered by events that all ranks see. The hosts meet in between, so that nobody waits for an event that is yet to be
// recorded.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "collectives/device/staged.h"

namespace muster::collectives::device {

class SharedGpu final : public Staged {
 public:
  // Collective.
  static base::Result<std::unique_ptr<Route>> make(const Ground& ground);

  base::Status allreduce(const ReduceTask& task) override;
  base::Result<void*> allocate(std::size_t bytes) override;
  // Others may have it mapped still: it stays until this route ends.
  base::Status release(void* memory) override;

 private:
  static constexpr std::size_t kShare = std::size_t{64} << 20;
  struct Region {
    DeviceMemory own;
    std::vector<DeviceMemory> mapped;      // of the others
    std::vector<DeviceAddress> addresses;  // by rank
    std::vector<std::size_t> bytes;        // by rank
    bool is_released = false;
  };
  explicit SharedGpu(const Ground& ground) : Staged(ground) {}
  base::Status start_sharing();
  base::Status share_events();
  base::Result<Region> share(std::size_t bytes);
  // Region 0: not all of it lies in one of ours.
  void find(const void* data, std::size_t bytes, std::uint32_t& region, std::uint64_t& offset) const;
  // Where that lies here; 0: there is no such place.
  DeviceAddress address(std::size_t rank, std::uint32_t region, std::uint64_t offset, std::size_t bytes) const;
  base::Result<bool> find_all(const std::vector<Said>& all, std::size_t bytes, std::vector<DeviceAddress>& in,
                              std::vector<DeviceAddress>& out) const;
  base::Status record(const Event& event);
  base::Status wait_for(const std::vector<Event>& events);
  base::Status meet() { return ground_.comm.barrier(); }
  // After the ranks have met with `ready_` recorded. Returns with the stream behind all ranks' kernels.
  base::Status reduce(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                      const ReduceTask& task, std::size_t count);
  base::Status copy(DeviceAddress to, DeviceAddress from, std::size_t bytes);

  Event ready_;                   // this rank's input is there
  Event done_;                    // this rank's slice is stored to all
  std::vector<Event> all_ready_;  // of the others
  std::vector<Event> all_done_;
  Region room_;
  std::map<std::uint32_t, Region> regions_;
  std::uint32_t last_region_ = 0;
};

}  // namespace muster::collectives::device
