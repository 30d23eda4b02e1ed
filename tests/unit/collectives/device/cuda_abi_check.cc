// Compiled, not run, where cuda.h and nccl.h are found: that cuda_api.h and nccl_api.h say what they say.
#include "collectives/device/cuda_api.h"
#include "collectives/device/nccl_api.h"

#include <cuda.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace muster::collectives::device {
namespace {

// Passed alike: pointers as pointers, numbers and enumerations of one size, structures of one size.
template <class A, class B>
constexpr bool kIsAlike =
    sizeof(A) == sizeof(B) && std::is_pointer_v<A> == std::is_pointer_v<B>&& std::is_class_v<A> ==
                                  std::is_class_v<B>&& std::is_floating_point_v<A> == std::is_floating_point_v<B>;

template <class A, class B>
struct Compare : std::false_type {};
template <class ResultA, class... A, class ResultB, class... B>
requires(sizeof...(A) == sizeof...(B)) struct Compare<ResultA (*)(A...), ResultB (*)(B...)>
    : std::bool_constant<(kIsAlike<ResultA, ResultB> && ... && kIsAlike<A, B>)> {
};

#define MUSTER_CHECK_CUDA(member, symbol, parameters) \
  static_assert(Compare<decltype(CudaApi::member), decltype(&::symbol)>::value, #symbol);
MUSTER_CUDA_FUNCTIONS(MUSTER_CHECK_CUDA)
#define MUSTER_CHECK_NCCL(member, symbol, parameters) \
  static_assert(Compare<decltype(NcclApi::member), decltype(&::symbol)>::value, #symbol);
MUSTER_NCCL_FUNCTIONS(MUSTER_CHECK_NCCL)
static_assert(Compare<decltype(CudaApi::exchange_capture_mode), decltype(&::cuThreadExchangeStreamCaptureMode)>::value);
static_assert(Compare<decltype(NcclApi::get_error_string), decltype(&::ncclGetErrorString)>::value);
static_assert(Compare<decltype(NcclApi::get_last_error), decltype(&::ncclGetLastError)>::value);
static_assert(Compare<decltype(NcclApi::split), decltype(&::ncclCommSplit)>::value);

static_assert(sizeof(IpcMemoryHandle) == sizeof(CUipcMemHandle));
static_assert(sizeof(DeviceUuid) == sizeof(CUuuid) && sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
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

static_assert(kNcclSuccess == ncclSuccess && kNcclInProgress == ncclInProgress && kNcclNoColor == NCCL_SPLIT_NOCOLOR);
static_assert(offsetof(ncclConfig_t, size) == offsetof(NcclConfig, size));
static_assert(offsetof(ncclConfig_t, magic) == offsetof(NcclConfig, magic));
static_assert(offsetof(ncclConfig_t, version) == offsetof(NcclConfig, version));
static_assert(offsetof(ncclConfig_t, blocking) == offsetof(NcclConfig, blocking));
static_assert(NCCL_VERSION(2, 14, 0) == 21400 && NCCL_CONFIG_UNDEF_INT == -2147483647 - 1);
static_assert(ncclSum == 0 && ncclProd == 1 && ncclMax == 2 && ncclMin == 3 && ncclAvg == 4);
static_assert(ncclInt8 == 0 && ncclUint8 == 1 && ncclInt32 == 2 && ncclInt64 == 4 && ncclFloat16 == 6);
static_assert(ncclFloat32 == 7 && ncclFloat64 == 8 && ncclBfloat16 == 9);

}  // namespace
}  // namespace muster::collectives::device
