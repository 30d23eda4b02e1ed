// Device memory of all ranks that each of them has mapped by CUDA IPC. It consists of regions. All ranks make a region
// together.
//
// Thread: the one that runs the collectives.
// Lifetime: regions stay until this object ends, even if released, since other ranks have them mapped. A region that
// all ranks have released is used again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/status.h"
#include "collectives/device/route.h"

namespace muster::collectives::device {

class IpcMemory {
 public:
  // The driver shares whole blocks of 2 MiB with other processes. So no other data of this process may lie in them.
  static constexpr std::size_t kBlock = std::size_t{2} << 20;

  explicit IpcMemory(const Ground& ground) : ground_(ground) {}

  // Collective. Makes a region in which this rank has `bytes` bytes, and returns its id, which is never 0.
  // RESOURCE_EXHAUSTED, on all ranks, if the GPU of rank lacking() has no memory for it. Nothing has changed then.
  base::Result<std::uint32_t> share(std::size_t bytes);
  int lacking() const { return lacking_; }
  // Not collective. Releases only this rank's part, which find() no longer finds. False if no such region exists.
  bool release(DeviceAddress begin);

  // Unmaps all memory of other ranks. From here on, find() finds nothing.
  void close();
  // Leaves own memory to the driver. Another process may still have it mapped, and freeing it then is undefined.
  void leave();

  // A place of this rank's memory. The region is 0 if the memory does not lie completely in one region.
  struct Place {
    std::uint32_t region = 0;
    std::uint64_t offset = 0;
  };
  Place find(const void* data, std::size_t bytes) const;
  // Returns the address at which a place of `rank` is mapped here; 0 if that rank has no such place.
  DeviceAddress address(std::size_t rank, const Place& place, std::size_t bytes) const;

 private:
  struct Region {
    DeviceMemory own;
    std::vector<DeviceMemory> mapped;      // memory of the other ranks
    std::vector<DeviceAddress> addresses;  // by rank
    std::vector<std::size_t> bytes;        // by rank
    std::vector<std::size_t> room;         // by rank, the capacity for buffers that reuse the region
    bool is_released = false;
  };
  using Regions = std::map<std::uint32_t, Region>;
  struct Wanted;
  struct SharedMemory;
  base::Result<std::uint32_t> make(const std::vector<Wanted>& wanted);
  base::Status map(Region& region, const std::vector<SharedMemory>& all) const;
  // Finds a region that all ranks have released and that has room for each rank's bytes; the end if no region fits.
  Regions::iterator find_released(const std::vector<Wanted>& wanted);

  const Ground& ground_;
  Regions regions_;
  std::uint32_t last_ = 0;
  int lacking_ = -1;
};

}  // namespace muster::collectives::device
