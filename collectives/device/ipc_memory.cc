#include "collectives/device/ipc_memory.h"

#include <algorithm>

namespace muster::collectives::device {
namespace {

struct SharedMemory {
  IpcMemoryHandle handle;
  std::uint64_t bytes;
};

std::size_t in_blocks(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + IpcMemory::kBlock - 1) / IpcMemory::kBlock * IpcMemory::kBlock;
}

}  // namespace

base::Result<std::uint32_t> IpcMemory::share(std::size_t bytes) {
  Region region;
  MUSTER_ASSIGN_OR_RETURN(region.own, device::allocate(ground_.gpu, in_blocks(bytes)));
  SharedMemory own{.handle = {}, .bytes = bytes};
  MUSTER_RETURN_IF_ERROR(
      ground_.gpu->call("cuIpcGetMemHandle", ground_.gpu->api().ipc_get_memory_handle, &own.handle, region.own.get()));
  MUSTER_ASSIGN_OR_RETURN(const auto all, tell_all(ground_.comm, own));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    region.bytes.push_back(all[rank].bytes);
    if (rank == static_cast<std::size_t>(ground_.comm.rank())) {
      region.addresses.push_back(region.own.get());
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(DeviceMemory mapped, open_memory(ground_.gpu, all[rank].handle));
    region.addresses.push_back(mapped.get());
    region.mapped.push_back(std::move(mapped));
  }
  regions_[++last_] = std::move(region);
  return last_;
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
