// Compiled, not run, where nvml.h is found: that nvml_functions.h says what it says.
#include "agent/gpus/helper/nvml_functions.h"

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include <nvml.h>

#include <cstddef>

#include "tests/unit/support/abi_compare.h"

namespace muster::agent::inline gpus::nvml {
namespace {

using abi::Compare;

#define MUSTER_CHECK_NVML(member, symbol, parameters) \
  static_assert(Compare<decltype(Functions::member), decltype(&::symbol)>::value, #symbol);
MUSTER_NVML_FUNCTIONS(MUSTER_CHECK_NVML)
static_assert(Compare<decltype(Functions::error_string), decltype(&::nvmlErrorString)>::value);
static_assert(Compare<decltype(Functions::processes_v2), decltype(&::nvmlDeviceGetComputeRunningProcesses_v2)>::value);
static_assert(Compare<decltype(Functions::processes_v2), decltype(&::nvmlDeviceGetComputeRunningProcesses_v3)>::value);
static_assert(Compare<decltype(Functions::processes_v1), decltype(&::nvmlDeviceGetComputeRunningProcesses)>::value);

#define MUSTER_CHECK_MEMBER(Ours, member, Theirs, their_member)             \
  static_assert(offsetof(Ours, member) == offsetof(Theirs, their_member) && \
                sizeof(Ours::member) == sizeof(Theirs::their_member));
MUSTER_CHECK_MEMBER(Memory, total, nvmlMemory_t, total)
MUSTER_CHECK_MEMBER(Memory, used, nvmlMemory_t, used)
MUSTER_CHECK_MEMBER(PciInfo, domain, nvmlPciInfo_t, domain)
MUSTER_CHECK_MEMBER(PciInfo, bus, nvmlPciInfo_t, bus)
MUSTER_CHECK_MEMBER(PciInfo, device, nvmlPciInfo_t, device)
MUSTER_CHECK_MEMBER(PciInfo, bus_id, nvmlPciInfo_t, busId)
MUSTER_CHECK_MEMBER(Utilization, gpu, nvmlUtilization_t, gpu)
MUSTER_CHECK_MEMBER(ProcessInfoV1, pid, nvmlProcessInfo_v1_t, pid)
MUSTER_CHECK_MEMBER(ProcessInfoV1, used_memory, nvmlProcessInfo_v1_t, usedGpuMemory)
MUSTER_CHECK_MEMBER(ProcessInfoV2, pid, nvmlProcessInfo_v2_t, pid)
MUSTER_CHECK_MEMBER(ProcessInfoV2, used_memory, nvmlProcessInfo_v2_t, usedGpuMemory)
static_assert(sizeof(Memory) == sizeof(nvmlMemory_t) && sizeof(PciInfo) == sizeof(nvmlPciInfo_t));
static_assert(sizeof(Utilization) == sizeof(nvmlUtilization_t));
static_assert(sizeof(ProcessInfoV1) == sizeof(nvmlProcessInfo_v1_t));
static_assert(sizeof(ProcessInfoV2) == sizeof(nvmlProcessInfo_v2_t));

}  // namespace
}  // namespace muster::agent::gpus::nvml
