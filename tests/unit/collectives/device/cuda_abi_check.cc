// Compiled, not run, where cuda.h is found: that cuda_api.h says what it says.
#include "collectives/device/cuda_api.h"

#include <cuda.h>

#include "tests/unit/support/abi_compare.h"

namespace muster::collectives::device {
namespace {

using abi::Compare;

#define MUSTER_CHECK_CUDA(member, symbol, parameters) \
  static_assert(Compare<decltype(CudaApi::member), decltype(&::symbol)>::value, #symbol);
MUSTER_CUDA_FUNCTIONS(MUSTER_CHECK_CUDA)
static_assert(Compare<decltype(CudaApi::exchange_capture_mode), decltype(&::cuThreadExchangeStreamCaptureMode)>::value);

static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(DeviceUuid) == sizeof(CUuuid));
static_assert(kCudaSuccess == CUDA_SUCCESS && kCudaNotReady == CUDA_ERROR_NOT_READY);
static_assert(kStreamNonBlocking == CU_STREAM_NON_BLOCKING && kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(kWaitValueAtLeast == CU_STREAM_WAIT_VALUE_GEQ);
static_assert(kLazyPeerAccess == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
static_assert(kHostPortable == CU_MEMHOSTALLOC_PORTABLE && kHostPortable == CU_MEMHOSTREGISTER_PORTABLE);
static_assert(kPointerMemoryType == CU_POINTER_ATTRIBUTE_MEMORY_TYPE);
static_assert(kPointerDeviceOrdinal == CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL);
static_assert(kMemoryTypeDevice == CU_MEMORYTYPE_DEVICE);
static_assert(kCudaCaptureImplicit == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
static_assert(kNotCapturing == CU_STREAM_CAPTURE_STATUS_NONE && kRelaxedCapture == CU_STREAM_CAPTURE_MODE_RELAXED);

}  // namespace
}  // namespace muster::collectives::device
