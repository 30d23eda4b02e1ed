#include "collectives/device/ipc_memory.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::collectives::device {
namespace {

std::size_t in_blocks(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + IpcMemory::kBlock - 1) / IpcMemory::kBlock * IpcMemory::kBlock;
}

}  // namespace

// One rank's message to the others. This struct and the next are trivially copyable.
struct IpcMemory::SharedMemory {
  IpcMemoryHandle handle;
  std::uint64_t is_there;  // 0 if the GPU had no memory for the region
};
struct IpcMemory::Wanted {
  std::uint64_t bytes = 0;
  std::array<std::uint32_t, 14> released{};  // the first regions that the rank has released; 0 ends the list
};

base::Result<std::uint32_t> IpcMemory::share(std::size_t bytes) {
  Wanted own{.bytes = bytes};
  auto* next = own.released.begin();
  for (const auto& [id, region] : regions_) {
    if (region.is_released && next != own.released.end()) *next++ = id;
  }
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Wanted> wanted, gather_all(ground_.comm, own));
  const auto again = find_released(wanted);
  if (again == regions_.end()) return make(wanted);
  again->second.is_released = false;
  for (std::size_t rank = 0; rank < wanted.size(); ++rank) again->second.bytes[rank] = wanted[rank].bytes;
  return again->first;
}

IpcMemory::Regions::iterator IpcMemory::find_released(const std::vector<Wanted>& wanted) {
  return std::ranges::find_if(regions_, [&wanted](const auto& entry) {
    const auto& [id, region] = entry;
    for (std::size_t rank = 0; rank < wanted.size(); ++rank) {
      if (std::ranges::count(wanted[rank].released, id) == 0 || region.room[rank] < wanted[rank].bytes) return false;
    }
    return true;
  });
}

base::Result<std::uint32_t> IpcMemory::make(const std::vector<Wanted>& wanted) {
  Region region;
  SharedMemory own{.handle = {}, .is_there = 0};
  const auto me = static_cast<std::size_t>(ground_.comm.rank());
  for (const Wanted& one : wanted) {
    region.bytes.push_back(one.bytes);
    region.room.push_back(in_blocks(one.bytes));
  }
  auto made = device::allocate(ground_.gpu, region.room[me]);
  if (made.ok()) {
    region.own = std::move(*made);
    own.is_there = 1;
    MUSTER_RETURN_IF_ERROR(ground_.gpu->call("cuIpcGetMemHandle", ground_.gpu->api().ipc_get_memory_handle, &own.handle,
                                             region.own.get()));
  } else if (made.status().code() != base::Code::kResourceExhausted) {
    return made.status();
  }
  const auto all = gather_all(ground_.comm, own);
  for (std::size_t rank = 0; all.ok() && rank < all->size(); ++rank) {
    if ((*all)[rank].is_there != 0) continue;
    lacking_ = static_cast<int>(rank);
    return base::resource_exhausted("the GPU of rank {} has no memory left for {} bytes",
                                    ground_.comm.world_rank(lacking_), region.room[rank]);
  }
  const base::Status shared = all.ok() ? map(region, *all) : all.status();
  if (!shared.ok()) {
    region.own.leave();  // other ranks may have mapped it
    return shared;
  }
  regions_[++last_] = std::move(region);
  return last_;
}

base::Status IpcMemory::map(Region& region, const std::vector<SharedMemory>& all) const {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (std::cmp_equal(rank, ground_.comm.rank())) {
      region.addresses.push_back(region.own.get());
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(DeviceMemory mapped, open_memory(ground_.gpu, all[rank].handle));
    region.addresses.push_back(mapped.get());
    region.mapped.push_back(std::move(mapped));
  }
  return base::ok_status();
}

bool IpcMemory::release(DeviceAddress begin) {
  const auto found = std::ranges::find_if(
      regions_, [begin](const auto& entry) { return !entry.second.is_released && entry.second.own.get() == begin; });
  if (found == regions_.end()) return false;
  found->second.is_released = true;
  return true;
}

void IpcMemory::close() {
  for (auto& [id, region] : regions_) {
    region.mapped.clear();
    region.is_released = true;
  }
}

void IpcMemory::leave() {
  for (auto& [id, region] : regions_) region.own.leave();
}

IpcMemory::Place IpcMemory::find(const void* data, std::size_t bytes) const {
  const auto own = static_cast<std::size_t>(ground_.comm.rank());
  const DeviceAddress at = address_of(data);
  for (const auto& [id, one] : regions_) {
    const DeviceAddress begin = one.addresses[own];
    if (one.is_released || at < begin || at - begin > one.bytes[own] || bytes > one.bytes[own] - (at - begin)) continue;
    return {id, at - begin};
  }
  return {};
}

DeviceAddress IpcMemory::address(std::size_t rank, const Place& place, std::size_t bytes) const {
  const auto found = regions_.find(place.region);
  if (found == regions_.end()) return 0;
  const std::size_t room = found->second.bytes[rank];
  if (place.offset > room || bytes > room - place.offset) return 0;
  return found->second.addresses[rank] + place.offset;
}

}  // namespace muster::collectives::device
