#include "agent/service/gpu_loads.h"

#include <algorithm>

namespace muster::agent {
namespace {

constexpr int kBytesPerMibBits = 20;

std::int64_t mebibytes(std::uint64_t bytes) {
  return static_cast<std::int64_t>(bytes >> kBytesPerMibBits);
}

v1::GpuLoad& load_of(const v1::Gpu& gpu, v1::HostLoad& load) {
  v1::GpuLoad& added = *load.add_gpus();
  added.set_vendor(gpu.vendor());
  added.set_index(gpu.index());
  return added;
}

void add(const gpus::NvidiaGpu& seen, v1::GpuLoad& load) {
  load.set_busy_percent(seen.busy_percent.value_or(0));
  load.set_busy_unknown(!seen.busy_percent);
  if (seen.memory_total > 0) load.set_memory_used_mib(mebibytes(seen.memory_used));
  if (seen.knows_processes) load.set_processes(static_cast<int>(seen.processes.size()));
}

// Who sees only his own processes and has none does not know how many there are.
void add(const gpus::FileGpu& seen, v1::GpuLoad& load) {
  load.set_busy_percent(seen.busy_percent.value_or(0));
  load.set_busy_unknown(!seen.busy_percent);
  if (seen.memory_used) load.set_memory_used_mib(mebibytes(*seen.memory_used));
  if (seen.shows_all || !seen.processes.empty()) load.set_processes(static_cast<int>(seen.processes.size()));
}

}  // namespace

void add_gpu_loads(const google::protobuf::RepeatedPtrField<v1::Gpu>& in_hello, const gpus::GpuReport& report,
                   v1::HostLoad& load) {
  for (const v1::Gpu& gpu : in_hello) {
    if (gpu.vendor() == v1::GPU_VENDOR_NVIDIA) {
      // Files may not have told its UUID.
      const auto found = std::ranges::find_if(report.gpus, [&](const gpus::NvidiaGpu& seen) {
        return gpu.uuid().empty() ? !gpu.pci().empty() && seen.pci == gpu.pci() : seen.uuid == gpu.uuid();
      });
      if (found != report.gpus.end()) add(*found, load_of(gpu, load));
      continue;
    }
    const auto found = std::ranges::find_if(report.others, [&](const gpus::FileGpu& seen) {
      return seen.is_intel == (gpu.vendor() == v1::GPU_VENDOR_INTEL) && seen.index == gpu.index() &&
             (seen.pci.empty() || gpu.pci().empty() || seen.pci == gpu.pci());  // else another has its place by now
    });
    if (found != report.others.end()) add(*found, load_of(gpu, load));
  }
}

}  // namespace muster::agent
