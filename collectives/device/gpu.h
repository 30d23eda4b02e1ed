// One GPU of this process: its primary context, which it shares with whatever else in the process uses CUDA (torch),
// and what libmuster makes on it. Objects are owned by one owner each and go with it.
//
// Any thread: every call makes the context current for itself. Outlived by nothing: what was made holds the Gpu.
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
  // `ordinal`: as the driver numbers this process's devices. INVALID_ARGUMENT: there is no such device.
  static base::Result<std::shared_ptr<Gpu>> open(std::shared_ptr<const CudaApi> api, int ordinal);
  ~Gpu();
  Gpu(const Gpu&) = delete;
  Gpu& operator=(const Gpu&) = delete;

  const CudaApi& api() const { return *api_; }
  int ordinal() const { return ordinal_; }
  const DeviceUuid& uuid() const { return uuid_; }
  // Whether kernels here may use memory of the device with this UUID: it is this one, or a peer that this process sees.
  bool reaches(const DeviceUuid& uuid) const;

  // The context is current on this thread while it lives, and the thread's calls end no capture of another one's.
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

  // `function(arguments…)` of the driver with the context current.
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

// Something of the driver's that is given back once. Move-only; empty after a move, and by default.
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
  // It stays the driver's: something on the device will use it for ever.
  void leave() { handle_ = Handle{}; }

 private:
  void reset() {
    if (gpu_ == nullptr || is_empty()) return;
    const Gpu::Current current(*gpu_);
    // What could be wrong with it (the context is broken) has been told by the calls that used it.
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

// Does not wait for the legacy default stream, nor that for it. Of the greatest priority: streams share the device's
// queues (CUDA_DEVICE_MAX_CONNECTIONS of them, 8 by default) with others of their priority, and behind a stream of the
// caller's that waits for libmuster's this one would wait for itself. kLeast: as programs do (tests).
enum class Priority { kGreatest, kLeast };
base::Result<Stream> make_stream(const std::shared_ptr<const Gpu>& gpu, Priority priority = Priority::kGreatest);
base::Result<Event> make_event(const std::shared_ptr<const Gpu>& gpu);
// Behind all that `stream`, the caller's, has at this moment. INVALID_ARGUMENT: what it gets is captured (a CUDA
// graph), and a mark would become a part of that.
base::Result<Event> mark(const std::shared_ptr<const Gpu>& gpu, void* stream);
base::Result<DeviceMemory> allocate(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes);
// Pinned; the device uses it at the same address (unified addressing, on all 64-bit hosts).
base::Result<HostMemory> allocate_pinned(const std::shared_ptr<const Gpu>& gpu, std::size_t bytes);
// Memory that exists becomes pinned while the result lives.
base::Result<HostMemory> pin(const std::shared_ptr<const Gpu>& gpu, void* memory, std::size_t bytes);

// Between two looks at what a device or NCCL does: gives the core away at first, and sleeps for a moment later on.
// Looking, since waits of the driver's (cuEventSynchronize) could not be left when a rank has ended, and what it calls
// behind a stream's work (cuLaunchHostFunc) does not come where the context has failed.
class Pace {
 public:
  Pace();
  void rest() const;

 private:
  const std::chrono::steady_clock::time_point end_awake_;
};
// What the driver says of `event`; kCudaNotReady: not within `time`.
CudaResult wait_for(const Gpu& gpu, void* event, std::chrono::milliseconds time);

// Of another process.
base::Result<DeviceMemory> open_memory(const std::shared_ptr<const Gpu>& gpu, const IpcMemoryHandle& handle);

// The ordinal of the device that `pointer` lies on; -1: it is memory of the host, or nothing that CUDA knows.
int device_of(const CudaApi& api, const void* pointer);
// The same on a thread that may have no context.
int device_of(const Gpu& gpu, const void* pointer);

inline DeviceAddress address_of(const void* pointer) {
  return reinterpret_cast<DeviceAddress>(pointer);
}

}  // namespace muster::collectives::device
