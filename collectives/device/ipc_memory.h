// Device memory of all ranks that each of them has mapped by CUDA IPC, in regions: one is made by all ranks at once.
//
// One thread, the one that runs the collectives. Regions stay until this object ends, also released ones, since others
// have them mapped; one that all ranks have released is used again.
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
  // The driver shares whole blocks of 2 MiB with other processes: nothing else of this process is to lie in them.
  static constexpr std::size_t kBlock = std::size_t{2} << 20;

  explicit IpcMemory(const Ground& ground) : ground_(ground) {}

  // Collective: the id of a new region, in which this rank has so many bytes. Never 0. RESOURCE_EXHAUSTED, on all
  // ranks: one of them, lacking(), has no memory for it on its GPU; all else is as before.
  base::Result<std::uint32_t> share(std::size_t bytes);
  int lacking() const { return lacking_; }
  // Of this rank's part alone, from here on find() does not find it. False: there is no such region.
  bool release(DeviceAddress begin);

  // From here on nothing of the others is mapped, and nothing is found.
  void close();
  // Own memory stays the driver's: another process may have it mapped still, and to free it then is undefined.
  void leave();

  // Where this rank's memory lies in the regions; region 0: not all of it is in one.
  struct Place {
    std::uint32_t region = 0;
    std::uint64_t offset = 0;
  };
  Place find(const void* data, std::size_t bytes) const;
  // Where a place of `rank`'s lies here; 0: the rank has no such one.
  DeviceAddress address(std::size_t rank, const Place& place, std::size_t bytes) const;

 private:
  struct Region {
    DeviceMemory own;
    std::vector<DeviceMemory> mapped;      // of the others
    std::vector<DeviceAddress> addresses;  // by rank
    std::vector<std::size_t> bytes;        // by rank
    std::vector<std::size_t> room;         // by rank, for buffers that come later
    bool is_released = false;
  };
  using Regions = std::map<std::uint32_t, Region>;
  struct Wanted;
  struct SharedMemory;
  base::Result<std::uint32_t> make(const std::vector<Wanted>& wanted);
  base::Status map(Region& region, const std::vector<SharedMemory>& all) const;
  // That all ranks have released, with room for what each wants; the end: there is none.
  Regions::iterator find_released(const std::vector<Wanted>& wanted);

  const Ground& ground_;
  Regions regions_;
  std::uint32_t last_ = 0;
  int lacking_ = -1;
};

}  // namespace muster::collectives::device
