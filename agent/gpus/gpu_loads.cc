#include "agent/gpus/gpu_loads.h"

#include <map>

#include "agent/gpus/gpu_names.h"
#include "agent/gpus/mebibytes.h"
#include "proto/convert.h"

namespace muster::agent::inline gpus {
namespace {

void add(const gpus::NvidiaGpu& seen, v1::GpuLoad& load) {
  load.set_busy_percent(seen.busy_percent.value_or(0));
  load.set_busy_unknown(!seen.busy_percent);
  if (seen.memory_total > 0) load.set_memory_used_mib(mebibytes(seen.memory_used));
  if (seen.knows_processes) load.set_processes(static_cast<int>(seen.processes.size()));
}

// If the driver lists only this user's processes and this user has none, the number of all users' processes is unknown.
// Then leave the number out.
void add(const gpus::FileGpu& seen, v1::GpuLoad& load) {
  load.set_busy_percent(seen.busy_percent.value_or(0));
  load.set_busy_unknown(!seen.busy_percent);
  if (seen.memory_used) load.set_memory_used_mib(mebibytes(*seen.memory_used));
  if (seen.shows_all || !seen.processes.empty()) load.set_processes(static_cast<int>(seen.processes.size()));
}

}  // namespace

void add_gpu_loads(const std::vector<model::GpuShape>& known, const gpus::GpuReport& report, v1::HostLoad& load) {
  std::map<GpuName, v1::GpuLoad> seen;
  for (std::size_t i = 0; i < report.gpus.size(); ++i) add(report.gpus[i], seen[name_of(report.gpus[i], i, known)]);
  for (const gpus::FileGpu& gpu : report.others) add(gpu, seen[name_of(gpu, report.others, known)]);
  for (const model::GpuShape& gpu : known) {
    const auto found = seen.find({.vendor = gpu.vendor, .index = gpu.index});
    if (found == seen.end()) continue;
    v1::GpuLoad& added = *load.add_gpus();
    added = found->second;
    added.set_vendor(proto::to_proto(gpu.vendor));
    added.set_index(gpu.index);
  }
}

}  // namespace muster::agent::gpus
