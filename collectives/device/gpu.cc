#include "collectives/device/gpu.h"

#include <sched.h>

#include <cstring>
#include <thread>

namespace muster::collectives::device {
namespace {

constexpr std::chrono::microseconds kAwake{200};  // time of polling before the first pause
constexpr std::chrono::microseconds kPause{50};   // time between two polls from then on

}  // namespace

base::Result<std::shared_ptr<Gpu>> Gpu::open(std::shared_ptr<const CudaApi> api, int ordinal) {
  int count = 0;
  MUSTER_RETURN_IF_ERROR(api->check(api->device_get_count(&count), "cuDeviceGetCount"));
  if (ordinal < 0 || ordinal >= count) {
    return base::invalid_argument("GPU {} does not exist; number of visible GPUs: {}", ordinal, count);
  }
  std::shared_ptr<Gpu> gpu(new Gpu(std::move(api), ordinal));
  const base::Status started = gpu->start();
  if (!started.ok()) return started.with_context(fmt::format("GPU {}", ordinal));
  return gpu;
}

base::Status Gpu::start() {
  const BesideCaptures beside(*api_);
  MUSTER_RETURN_IF_ERROR(api_->check(api_->device_get(&device_, ordinal_), "cuDeviceGet"));
  MUSTER_RETURN_IF_ERROR(api_->check(api_->device_get_uuid(&uuid_, device_), "cuDeviceGetUuid"));
  return api_->check(api_->primary_context_retain(&context_, device_), "cuDevicePrimaryCtxRetain");
}

Gpu::~Gpu() {
  if (context_ == nullptr) return;
  const BesideCaptures beside(*api_);
  (void)api_->primary_context_release(device_);
}

bool Gpu::reaches(const DeviceUuid& uuid) const {
  if (std::memcmp(&uuid, &uuid_, sizeof uuid) == 0) return true;
  int count = 0;
  if (api_->device_get_count(&count) != kCudaSuccess) return false;
  for (int ordinal = 0; ordinal < count; ++ordinal) {
    int device = 0;
    int can = 0;
    DeviceUuid found{};
    if (api_->device_get(&device, ordinal) != kCudaSuccess) continue;
    if (api_->device_get_uuid(&found, device) != kCudaSuccess || std::memcmp(&found, &uuid, sizeof uuid) != 0) continue;
    return api_->device_can_access_peer(&can, device_, device) == kCudaSuccess && can != 0;
  }
  return false;
}

base::Result<Stream> make_stream(const std::shared_ptr<const Gpu>& gpu, Priority priority) {
  void* stream = nullptr;
  int least = 0;
  int greatest = 0;
  MUSTER_RETURN_IF_ERROR(
      gpu->call("cuCtxGetStreamPriorityRange", gpu->api().context_get_priorities, &least, &greatest));
  MUSTER_RETURN_IF_ERROR(gpu->call("cuStreamCreateWithPriority", gpu->api().stream_create, &stream, kStreamNonBlocking,
                                   priority == Priority::kGreatest ? greatest : least));
  return Stream(gpu, stream, gpu->api().stream_destroy);
}

base::Result<Event> make_event(const std::shared_ptr<const Gpu>& gpu) {
  void* event = nullptr;
  MUSTER_RETURN_IF_ERROR(gpu->call("cuEventCreate", gpu->api().event_create, &event, kEventDisableTiming));
  return Event(gpu, event, gpu->api().event_destroy);
}

base::Result<Event> mark(const std::shared_ptr<const Gpu>& gpu, void* stream) {
  const CudaApi& api = gpu->api();
  const Gpu::Current current(*gpu);
  int status = kNotCapturing;
  const CudaResult queried = api.stream_is_capturing(stream, &status);
  // The legacy default stream is never captured, but it waits for a stream that is.
  if (queried == kCudaCaptureImplicit || (queried == kCudaSuccess && status != kNotCapturing)) {
    return base::Status(base::Code::kInvalidArgument,
                        "the stream is being captured into a CUDA graph, which cannot contain collectives: call "
                        "this outside of the capture");
  }
  MUSTER_RETURN_IF_ERROR(api.check(queried, "the caller's stream (cuStreamIsCapturing)"));
  MUSTER_ASSIGN_OR_RETURN(Event event, make_event(gpu));
  MUSTER_RETURN_IF_ERROR(api.check(api.event_record(event.get(), stream), "the caller's stream (cuEventRecord)"));
  return event;
}

base::Result<DeviceMemory> allocate(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes) {
  DeviceAddress address = 0;
  const base::Status done = gpu->call("cuMemAlloc", gpu->api().memory_allocate, &address, bytes);
  if (!done.ok()) return done.with_context(fmt::format("{} bytes on GPU {}", bytes, gpu->ordinal()));
  return DeviceMemory(gpu, address, gpu->api().memory_free);
}

base::Result<HostMemory> allocate_pinned(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes) {
  void* memory = nullptr;
  MUSTER_RETURN_IF_ERROR(gpu->call("cuMemHostAlloc", gpu->api().host_allocate, &memory, bytes, kHostPortable));
  return HostMemory(gpu, memory, gpu->api().host_free);
}

base::Result<HostMemory> pin(const std::shared_ptr<const Gpu>& gpu, void* memory, std::size_t bytes) {
  MUSTER_RETURN_IF_ERROR(gpu->call("cuMemHostRegister", gpu->api().host_register, memory, bytes, kHostPortable));
  return HostMemory(gpu, memory, gpu->api().host_unregister);
}

Pace::Pace() : end_awake_(std::chrono::steady_clock::now() + kAwake) {}

void Pace::rest() const {
  if (std::chrono::steady_clock::now() < end_awake_) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(kPause);
  }
}

CudaResult wait_for(const Gpu& gpu, void* event, std::chrono::milliseconds time) {
  const Gpu::Current current(gpu);
  const auto end = std::chrono::steady_clock::now() + time;
  const Pace pace;
  while (true) {
    const CudaResult result = gpu.api().event_query(event);
    if (result != kCudaNotReady || std::chrono::steady_clock::now() > end) return result;
    pace.rest();
  }
}

base::Result<DeviceMemory> open_memory(const std::shared_ptr<const Gpu>& gpu, const IpcMemoryHandle& handle) {
  DeviceAddress address = 0;
  MUSTER_RETURN_IF_ERROR(
      gpu->call("cuIpcOpenMemHandle", gpu->api().ipc_open_memory_handle, &address, handle, kLazyPeerAccess));
  return DeviceMemory(gpu, address, gpu->api().ipc_close_memory_handle);
}

int device_of(const Gpu& gpu, const void* pointer) {
  const Gpu::Current current(gpu);
  return device_of(gpu.api(), pointer);
}

int device_of(const CudaApi& api, const void* pointer) {
  unsigned type = 0;
  int ordinal = -1;
  if (api.pointer_get_attribute(&type, kPointerMemoryType, address_of(pointer)) != kCudaSuccess) return -1;
  if (type != kMemoryTypeDevice) return -1;
  return api.pointer_get_attribute(&ordinal, kPointerDeviceOrdinal, address_of(pointer)) == kCudaSuccess ? ordinal : -1;
}

}  // namespace muster::collectives::device
