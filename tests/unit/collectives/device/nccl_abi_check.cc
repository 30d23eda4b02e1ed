// Compiled, not run, where nccl.h is found: that nccl_api.h says what it says.
#include "collectives/device/nccl_api.h"

#include <nccl.h>

#include <cstddef>

#include "tests/unit/support/abi_compare.h"

namespace muster::collectives::device {
namespace {

using abi::Compare;

#define MUSTER_CHECK_NCCL(member, symbol, parameters) \
  static_assert(Compare<decltype(NcclApi::member), decltype(&::symbol)>::value, #symbol);
MUSTER_NCCL_FUNCTIONS(MUSTER_CHECK_NCCL)
static_assert(Compare<decltype(NcclApi::get_error_string), decltype(&::ncclGetErrorString)>::value);
static_assert(Compare<decltype(NcclApi::get_last_error), decltype(&::ncclGetLastError)>::value);
static_assert(Compare<decltype(NcclApi::split), decltype(&::ncclCommSplit)>::value);

static_assert(sizeof(NcclUniqueId) == sizeof(ncclUniqueId));
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
