// The functions of the CUDA driver (libcuda.so.1) that libmuster uses. They are found at run time, so that one build
// serves hosts with and without GPUs. Types, numbers and versioned names are those of cuda.h (CUDA 12 and 13).
// tests/unit/collectives/device/cuda_abi_check.cc compares them with cuda.h wherever it is installed.
//
// Streams, events, contexts, modules and functions are opaque pointers. Addresses on the device are 64-bit numbers.
// Thread: any; most calls use the thread's current context.
// Errors: numbers of the driver, which check() turns into messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"

namespace muster::collectives::device {

using CudaResult = int;
using DeviceAddress = unsigned long long;

struct IpcMemoryHandle {
  char reserved[64];
};
struct DeviceUuid {
  char bytes[16];
};

inline constexpr CudaResult kCudaSuccess = 0;
inline constexpr CudaResult kCudaNotReady = 600;
inline constexpr CudaResult kCudaCaptureImplicit = 906;
inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kWaitValueAtLeast = 0;  // true if (int32)(*address - value) >= 0
inline constexpr unsigned kLazyPeerAccess = 1;
inline constexpr unsigned kHostPortable = 1;  // for cuMemHostAlloc and cuMemHostRegister
inline constexpr int kPointerMemoryType = 2;
inline constexpr int kPointerDeviceOrdinal = 9;
inline constexpr unsigned kMemoryTypeDevice = 2;
inline constexpr int kNotCapturing = 0;
inline constexpr int kRelaxedCapture = 2;

// X(member, symbol, parameters)
#define MUSTER_CUDA_FUNCTIONS(X)                                                                                      \
  X(init, cuInit, (unsigned flags))                                                                                   \
  X(get_error_string, cuGetErrorString, (CudaResult error, const char** text))                                        \
  X(driver_get_version, cuDriverGetVersion, (int* version))                                                           \
  X(device_get_count, cuDeviceGetCount, (int* count))                                                                 \
  X(device_get, cuDeviceGet, (int* device, int ordinal))                                                              \
  X(device_get_uuid, cuDeviceGetUuid_v2, (DeviceUuid * uuid, int device))                                             \
  X(device_can_access_peer, cuDeviceCanAccessPeer, (int* can, int device, int peer))                                  \
  X(primary_context_retain, cuDevicePrimaryCtxRetain, (void** context, int device))                                   \
  X(primary_context_release, cuDevicePrimaryCtxRelease_v2, (int device))                                              \
  X(context_push, cuCtxPushCurrent_v2, (void* context))                                                               \
  X(context_pop, cuCtxPopCurrent_v2, (void** context))                                                                \
  X(pointer_get_attribute, cuPointerGetAttribute, (void* value, int attribute, DeviceAddress pointer))                \
  X(module_load_data, cuModuleLoadData, (void** module, const void* image))                                           \
  X(module_unload, cuModuleUnload, (void* module))                                                                    \
  X(module_get_function, cuModuleGetFunction, (void** function, void* module, const char* name))                      \
  X(memory_allocate, cuMemAlloc_v2, (DeviceAddress * address, std::size_t bytes))                                     \
  X(memory_free, cuMemFree_v2, (DeviceAddress address))                                                               \
  X(host_allocate, cuMemHostAlloc, (void** memory, std::size_t bytes, unsigned flags))                                \
  X(host_free, cuMemFreeHost, (void* memory))                                                                         \
  X(host_register, cuMemHostRegister_v2, (void* memory, std::size_t bytes, unsigned flags))                           \
  X(host_unregister, cuMemHostUnregister, (void* memory))                                                             \
  X(copy_async, cuMemcpyAsync, (DeviceAddress to, DeviceAddress from, std::size_t bytes, void* stream))               \
  X(set_async, cuMemsetD8Async, (DeviceAddress to, unsigned char value, std::size_t bytes, void* stream))             \
  X(context_get_priorities, cuCtxGetStreamPriorityRange, (int* least, int* greatest))                                 \
  X(stream_create, cuStreamCreateWithPriority, (void** stream, unsigned flags, int priority))                         \
  X(stream_destroy, cuStreamDestroy_v2, (void* stream))                                                               \
  X(stream_is_capturing, cuStreamIsCapturing, (void* stream, int* status))                                            \
  X(stream_wait_event, cuStreamWaitEvent, (void* stream, void* event, unsigned flags))                                \
  X(stream_wait_value, cuStreamWaitValue32_v2,                                                                        \
    (void* stream, DeviceAddress address, std::uint32_t value, unsigned flags))                                       \
  X(stream_write_value, cuStreamWriteValue32_v2,                                                                      \
    (void* stream, DeviceAddress address, std::uint32_t value, unsigned flags))                                       \
  X(event_create, cuEventCreate, (void** event, unsigned flags))                                                      \
  X(event_destroy, cuEventDestroy_v2, (void* event))                                                                  \
  X(event_record, cuEventRecord, (void* event, void* stream))                                                         \
  X(event_query, cuEventQuery, (void* event))                                                                         \
  X(ipc_get_memory_handle, cuIpcGetMemHandle, (IpcMemoryHandle * handle, DeviceAddress address))                      \
  X(ipc_open_memory_handle, cuIpcOpenMemHandle_v2, (DeviceAddress * address, IpcMemoryHandle handle, unsigned flags)) \
  X(ipc_close_memory_handle, cuIpcCloseMemHandle, (DeviceAddress address))                                            \
  X(launch_kernel, cuLaunchKernel,                                                                                    \
    (void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,           \
     unsigned block_z, unsigned shared_bytes, void* stream, void** parameters, void** extra))

struct CudaApi {
  // NOT_FOUND if there is no driver or if it is too old; the message names the missing file or function. INTERNAL if
  // the driver does not start, such as without a device.
  static base::Result<std::shared_ptr<const CudaApi>> load();

#define MUSTER_CUDA_MEMBER(member, symbol, parameters) CudaResult(*member) parameters = nullptr;
  MUSTER_CUDA_FUNCTIONS(MUSTER_CUDA_MEMBER)
#undef MUSTER_CUDA_MEMBER
  // Null if this driver lacks it.
  CudaResult (*exchange_capture_mode)(int* mode) = nullptr;

  // Returns OK, or an error such as "GPU 0: cuMemAlloc of 64 bytes: out of memory".
  base::Status check(CudaResult result, const char* what) const;
};

// While this object lives, the thread's calls do not disturb captures into CUDA graphs. Captures use the mode "global"
// by default. In that mode many calls of any thread (cuEventQuery, cuMemAlloc) fail and end the capture.
class BesideCaptures {
 public:
  explicit BesideCaptures(const CudaApi& api) : exchange_(api.exchange_capture_mode) { exchange(); }
  ~BesideCaptures() { exchange(); }
  BesideCaptures(const BesideCaptures&) = delete;
  BesideCaptures& operator=(const BesideCaptures&) = delete;

 private:
  void exchange() {
    if (exchange_ != nullptr) (void)exchange_(&mode_);
  }
  CudaResult (*const exchange_)(int* mode);
  int mode_ = kRelaxedCapture;  // after exchange(), the mode that this thread had before
};

}  // namespace muster::collectives::device
