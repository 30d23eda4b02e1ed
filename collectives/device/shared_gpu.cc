#include "collectives/device/shared_gpu.h"

#include <algorithm>

#include "collectives/algorithm/slices.h"

namespace muster::collectives::device {
namespace {

std::size_t index(int rank) {
  return static_cast<std::size_t>(rank);
}

// What every rank says to all others.
template <class T>
base::Result<std::vector<T>> tell_all(Communicator& comm, const T& own) {
  std::vector<T> all(index(comm.size()));
  const std::vector<std::size_t> counts(all.size(), sizeof own);
  MUSTER_RETURN_IF_ERROR(comm.allgather(&own, all.data(), counts, DType::kU8, true));
  return all;
}

struct SharedEvents {
  IpcEventHandle ready;
  IpcEventHandle done;
};
struct SharedMemory {
  IpcMemoryHandle handle;
  std::uint64_t bytes;
};

// The driver shares whole blocks of 2 MiB with other processes: nothing else of this process is to lie in them.
constexpr std::size_t kBlock = std::size_t{2} << 20;
std::size_t in_blocks(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + kBlock - 1) / kBlock * kBlock;
}

}  // namespace

base::Result<std::unique_ptr<Route>> SharedGpu::make(const Ground& ground) {
  std::unique_ptr<SharedGpu> made(new SharedGpu(ground));
  MUSTER_RETURN_IF_ERROR(made->start());
  MUSTER_RETURN_IF_ERROR(made->start_sharing());
  return std::unique_ptr<Route>(std::move(made));
}

base::Status SharedGpu::start_sharing() {
  MUSTER_RETURN_IF_ERROR(share_events());
  MUSTER_ASSIGN_OR_RETURN(room_, share(kShare));
  return base::ok_status();
}

base::Status SharedGpu::share_events() {
  const CudaApi& api = ground_.gpu->api();
  MUSTER_ASSIGN_OR_RETURN(ready_, make_event(ground_.gpu, true));
  MUSTER_ASSIGN_OR_RETURN(done_, make_event(ground_.gpu, true));
  SharedEvents own{};
  MUSTER_RETURN_IF_ERROR(ground_.gpu->call("cuIpcGetEventHandle", api.ipc_get_event_handle, &own.ready, ready_.get()));
  MUSTER_RETURN_IF_ERROR(ground_.gpu->call("cuIpcGetEventHandle", api.ipc_get_event_handle, &own.done, done_.get()));
  MUSTER_ASSIGN_OR_RETURN(const auto all, tell_all(ground_.comm, own));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (rank == index(ground_.comm.rank())) continue;
    MUSTER_ASSIGN_OR_RETURN(Event ready, open_event(ground_.gpu, all[rank].ready));
    MUSTER_ASSIGN_OR_RETURN(Event done, open_event(ground_.gpu, all[rank].done));
    all_ready_.push_back(std::move(ready));
    all_done_.push_back(std::move(done));
  }
  return base::ok_status();
}

base::Result<SharedGpu::Region> SharedGpu::share(std::size_t bytes) {
  Region region;
  MUSTER_ASSIGN_OR_RETURN(region.own, device::allocate(ground_.gpu, in_blocks(bytes)));
  SharedMemory own{.handle = {}, .bytes = bytes};
  MUSTER_RETURN_IF_ERROR(
      ground_.gpu->call("cuIpcGetMemHandle", ground_.gpu->api().ipc_get_memory_handle, &own.handle, region.own.get()));
  MUSTER_ASSIGN_OR_RETURN(const auto all, tell_all(ground_.comm, own));
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    region.bytes.push_back(all[rank].bytes);
    if (rank == index(ground_.comm.rank())) {
      region.addresses.push_back(region.own.get());
      continue;
    }
    MUSTER_ASSIGN_OR_RETURN(DeviceMemory mapped, open_memory(ground_.gpu, all[rank].handle));
    region.addresses.push_back(mapped.get());
    region.mapped.push_back(std::move(mapped));
  }
  return region;
}

base::Result<void*> SharedGpu::allocate(std::size_t bytes) {
  MUSTER_ASSIGN_OR_RETURN(Region region, share(bytes));
  void* const data = reinterpret_cast<void*>(region.own.get());
  regions_[++last_region_] = std::move(region);
  return data;
}

base::Status SharedGpu::release(void* memory) {
  const auto found = std::ranges::find_if(regions_, [memory](const auto& entry) {
    return !entry.second.is_released && entry.second.own.get() == address_of(memory);
  });
  if (found == regions_.end()) {
    return base::error(base::Code::kInvalidArgument, "this is no buffer of communicator {}", ground_.comm.name());
  }
  found->second.is_released = true;
  return base::ok_status();
}

void SharedGpu::find(const void* data, std::size_t bytes, std::uint32_t& region, std::uint64_t& offset) const {
  const std::size_t own = index(ground_.comm.rank());
  for (const auto& [id, one] : regions_) {
    const DeviceAddress begin = one.addresses[own];
    const DeviceAddress at = address_of(data);
    if (one.is_released || at < begin || at - begin > one.bytes[own] || bytes > one.bytes[own] - (at - begin)) continue;
    region = id;
    offset = at - begin;
    return;
  }
}

DeviceAddress SharedGpu::address(std::size_t rank, std::uint32_t region, std::uint64_t offset,
                                 std::size_t bytes) const {
  const auto found = regions_.find(region);
  if (found == regions_.end()) return 0;
  const std::size_t room = found->second.bytes[rank];
  if (offset > room || bytes > room - offset) return 0;
  return found->second.addresses[rank] + offset;
}

// False: not all ranks have both in buffers of allocate().
base::Result<bool> SharedGpu::find_all(const std::vector<Said>& all, std::size_t bytes, std::vector<DeviceAddress>& in,
                                       std::vector<DeviceAddress>& out) const {
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].in_region == 0 || all[rank].out_region == 0) return false;
    in.push_back(address(rank, all[rank].in_region, all[rank].in_offset, bytes));
    out.push_back(address(rank, all[rank].out_region, all[rank].out_offset, bytes));
    if (in.back() == 0 || out.back() == 0) {
      return base::error(base::Code::kInternal, "rank {} names a buffer that it does not have",
                         ground_.comm.world_rank(static_cast<int>(rank)));
    }
  }
  return true;
}

base::Status SharedGpu::record(const Event& event) {
  return ground_.gpu->call("cuEventRecord", ground_.gpu->api().event_record, event.get(), ground_.stream);
}

base::Status SharedGpu::wait_for(const std::vector<Event>& events) {
  for (const Event& event : events) {
    MUSTER_RETURN_IF_ERROR(
        ground_.gpu->call("cuStreamWaitEvent", ground_.gpu->api().stream_wait_event, ground_.stream, event.get(), 0U));
  }
  return base::ok_status();
}

base::Status SharedGpu::copy(DeviceAddress to, DeviceAddress from, std::size_t bytes) {
  return ground_.gpu->call("a copy on the GPU (cuMemcpyAsync)", ground_.gpu->api().copy_async, to, from, bytes,
                           ground_.stream);
}

base::Status SharedGpu::reduce(const std::vector<DeviceAddress>& in, const std::vector<DeviceAddress>& out,
                               const ReduceTask& task, std::size_t count) {
  MUSTER_RETURN_IF_ERROR(wait_for(all_ready_));
  const Slice slice = slice_of(count * task.element(), ground_.comm.size(), ground_.comm.rank());
  std::vector<DeviceAddress> from;
  std::vector<DeviceAddress> to;
  for (const DeviceAddress address : in) from.push_back(address + slice.begin);
  for (const DeviceAddress address : out) to.push_back(address + slice.begin);
  Scale scale = task.scale;
  if (task.op == RedOp::kAvg) scale.divisor = static_cast<std::uint32_t>(ground_.comm.size());
  MUSTER_RETURN_IF_ERROR(
      ground_.kernels->reduce(ground_.stream, from, to, slice.size / task.element(), task.type, task.op, scale));
  MUSTER_RETURN_IF_ERROR(record(done_));
  MUSTER_RETURN_IF_ERROR(meet());
  return wait_for(all_done_);
}

base::Status SharedGpu::allreduce(const ReduceTask& task) {
  Said own{.call = call_of(Op::kAllreduce, task)};
  find(task.input, task.bytes(), own.in_region, own.in_offset);
  find(task.output, task.bytes(), own.out_region, own.out_offset);
  MUSTER_RETURN_IF_ERROR(record(ready_));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<Said> all, agree(ground_.comm, own));
  if (task.count == 0) return base::ok_status();
  std::vector<DeviceAddress> in;
  std::vector<DeviceAddress> out;
  MUSTER_ASSIGN_OR_RETURN(const bool are_shared, find_all(all, task.bytes(), in, out));
  if (are_shared) return reduce(in, out, task, task.count);
  const std::vector<DeviceAddress>& place = room_.addresses;
  const DeviceAddress own_place = place[index(ground_.comm.rank())];
  for (std::size_t at = 0; at < task.bytes(); at += kShare) {
    const std::size_t bytes = std::min(kShare, task.bytes() - at);
    MUSTER_RETURN_IF_ERROR(copy(own_place, address_of(task.in() + at), bytes));
    MUSTER_RETURN_IF_ERROR(record(ready_));
    MUSTER_RETURN_IF_ERROR(meet());
    MUSTER_RETURN_IF_ERROR(reduce(place, place, task, bytes / task.element()));
    MUSTER_RETURN_IF_ERROR(copy(address_of(task.out() + at), own_place, bytes));
  }
  return base::ok_status();
}

}  // namespace muster::collectives::device
