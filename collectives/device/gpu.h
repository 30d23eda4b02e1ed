// One GPU of this process, and the objects that libmuster makes on it. Its primary context is shared with all other
// CUDA users of the process, such as torch.
//
// Owner: each object has one owner and is freed with it. Objects keep the Gpu alive.
// Thread: any; every call makes the context current for itself.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "base/status.h"
#include "collectives/device/cuda_api.h"

namespace muster::collectives::device {

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // `ordinal` is the driver's number of the device in this process. INVALID_ARGUMENT if no such device exists.
  static base::Result<std::shared_ptr<Gpu>> open(std::shared_ptr<const CudaApi> api, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const CudaApi& api() const { return *api_; }
  int ordinal() const { return ordinal_; }
  const DeviceUuid& uuid() const { return uuid_; }
  // Returns whether kernels here may use memory of the device with this UUID. That is this device, or a peer that this
  // process sees.
  bool reaches(const DeviceUuid& uuid) const;

  // Makes the context current on this thread while it lives. The thread's calls then end no other thread's capture.
  class Current {
   public:
    explicit Current(const Gpu& gpu)
        : gpu_(gpu), beside_(*gpu.api_), is_pushed_(gpu.api_->context_push(gpu.context_) == kCudaSuccess) {}
    ~Current() {
      void* popped = nullptr;
      if (is_pushed_) (void)gpu_.api_->context_pop(&popped);
    }
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const Gpu& gpu_;
    const BesideCaptures beside_;
    const bool is_pushed_;
  };

  // Calls `function(arguments…)` of the driver with the context current.
  template <class... Parameters, class... Arguments>
  base::Status call(const char* what, CudaResult (*function)(Parameters...), Arguments... arguments) const {
    const Current current(*this);
    return api_->check(function(arguments...), what);
  }

 private:
  Gpu(std::shared_ptr<const CudaApi> api, int ordinal) : api_(std::move(api)), ordinal_(ordinal) {}
  base::Status start();

  const std::shared_ptr<const CudaApi> api_;
  const int ordinal_;
  int device_ = 0;
  void* context_ = nullptr;
  DeviceUuid uuid_{};
};

// A driver handle that is freed once. It is move-only, and empty by default and after a move.
template <class Handle>
class Owned {
 public:
  using Free = CudaResult (*)(Handle);
  Owned() = default;
  Owned(std::shared_ptr<const Gpu> gpu, Handle handle, Free free)
      : gpu_(std::move(gpu)), handle_(handle), free_(free) {}
  ~Owned() { reset(); }
  Owned(Owned&& other) noexcept
      : gpu_(std::move(other.gpu_)), handle_(std::exchange(other.handle_, Handle{})), free_(other.free_) {}
  Owned& operator=(Owned&& other) noexcept {
    if (this == &other) return *this;
    reset();
    gpu_ = std::move(other.gpu_);
    handle_ = std::exchange(other.handle_, Handle{});
    free_ = other.free_;
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Handle get() const { return handle_; }
  bool is_empty() const { return handle_ == Handle{}; }
  // Drops the handle without freeing it, because work on the device may use it forever.
  void leave() { handle_ = Handle{}; }

 private:
  void reset() {
    if (gpu_ == nullptr || is_empty()) return;
    const Gpu::Current current(*gpu_);
    // Ignore errors, such as a broken context: the calls that used the handle have reported them.
    (void)free_(std::exchange(handle_, Handle{}));
  }
  std::shared_ptr<const Gpu> gpu_;
  Handle handle_{};
  Free free_ = nullptr;
};

using Stream = Owned<void*>;
using Event = Owned<void*>;
using DeviceMemory = Owned<DeviceAddress>;
using HostMemory = Owned<void*>;

// Makes a stream that does not synchronise with the legacy default stream. Streams of one priority share the device's
// queues (CUDA_DEVICE_MAX_CONNECTIONS, 8 by default). In one queue with a caller's stream that waits for libmuster,
// this stream would wait for itself. So it has the greatest priority by default. Tests use kLeast, as programs do.
enum class Priority { kGreatest, kLeast };
base::Result<Stream> make_stream(const std::shared_ptr<const Gpu>& gpu, Priority priority = Priority::kGreatest);
base::Result<Event> make_event(const std::shared_ptr<const Gpu>& gpu);
// Returns an event behind all work that the caller's `stream` has now. INVALID_ARGUMENT if the stream is being captured
// into a CUDA graph, because the event would become part of the graph.
base::Result<Event> mark(const std::shared_ptr<const Gpu>& gpu, void* stream);
base::Result<DeviceMemory> allocate(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes);
// Allocates pinned memory. The device uses it at the same address, because all 64-bit hosts have unified addressing.
base::Result<HostMemory> allocate_pinned(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes);
// Pins existing memory while the result lives.
base::Result<HostMemory> pin(const std::shared_ptr<const Gpu>& gpu, void* memory, std::size_t bytes);

// Pauses between two polls of the device or of NCCL. It yields the core at first, and sleeps briefly later. There are
// two reasons for polling. A wait of the driver (cuEventSynchronize) cannot be left when a rank has ended. And
// cuLaunchHostFunc callbacks do not run once the context has failed.
class Pace {
 public:
  Pace();
  void rest() const;

 private:
  const std::chrono::steady_clock::time_point end_awake_;
};
// Returns the driver's result for `event`, or kCudaNotReady if the device does not reach it within `time`.
CudaResult wait_for(const Gpu& gpu, void* event, std::chrono::milliseconds time);

// Maps memory of another process.
base::Result<DeviceMemory> open_memory(const std::shared_ptr<const Gpu>& gpu, const IpcMemoryHandle& handle);

// Returns the ordinal of the device that `pointer` lies on, or -1 if it is host memory or unknown to CUDA.
int device_of(const CudaApi& api, const void* pointer);
// Does what the function above does, for a thread that may have no context.
int device_of(const Gpu& gpu, const void* pointer);

inline DeviceAddress address_of(const void* pointer) {
  return reinterpret_cast<DeviceAddress>(pointer);
}

}  // namespace muster::collectives::device
