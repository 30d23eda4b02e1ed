#include "agent/gpus/helper/survey.h"

#include <algorithm>
#include <map>

namespace muster::agent::gpus {
namespace {

using Device = NvmlApi::Device;

std::string text_or_nothing(const base::Result<std::string>& text) {
  return text.ok() ? text->substr(0, kMaxText) : std::string();
}

std::vector<Device> parts_of(NvmlApi& nvml, Device gpu) {
  std::vector<Device> parts;
  const auto most = nvml.most_parts(gpu);
  if (!most.ok()) return parts;
  for (unsigned i = 0; i < *most && parts.size() < kMaxMigDevices; ++i) {
    if (const auto part = nvml.part(gpu, i); part.ok()) parts.push_back(*part);
  }
  return parts;
}

MigDevice look_at_part(NvmlApi& nvml, Device part) {
  MigDevice found;
  found.uuid = text_or_nothing(nvml.uuid(part));
  found.model = text_or_nothing(nvml.name(part));
  if (const auto memory = nvml.memory(part); memory.ok()) {
    found.memory_total = memory->total;
    found.memory_used = memory->used;
  }
  return found;
}

// Who has no privileges sees a divided GPU's processes only on its parts.
void add_processes(NvmlApi& nvml, const std::vector<Device>& devices, NvidiaGpu& gpu) {
  std::map<std::int32_t, std::optional<std::uint64_t>> known;
  for (const Device device : devices) {
    const auto processes = nvml.processes(device);
    if (!processes.ok()) continue;
    gpu.knows_processes = true;
    for (const GpuProcess& process : *processes) {
      if (process.pid <= 0 || known.size() == kMaxProcesses) continue;
      auto& memory = known[process.pid];
      if (process.memory) memory = std::max(memory.value_or(0), *process.memory);
    }
  }
  for (const auto& [pid, memory] : known) gpu.processes.push_back({pid, memory});
}

// INTERNAL: what identifies it cannot be had.
base::Result<NvidiaGpu> look_at_gpu(NvmlApi& nvml, Device device) {
  NvidiaGpu gpu;
  MUSTER_ASSIGN_OR_RETURN(const std::string uuid, nvml.uuid(device));
  gpu.uuid = uuid.substr(0, kMaxText);
  gpu.model = text_or_nothing(nvml.name(device));
  gpu.pci = text_or_nothing(nvml.pci(device));
  if (const auto memory = nvml.memory(device); memory.ok()) {
    gpu.memory_total = memory->total;
    gpu.memory_used = memory->used;
  }
  if (const auto busy = nvml.busy_percent(device); busy.ok()) gpu.busy_percent = std::clamp(*busy, 0, 100);
  std::vector<Device> devices = {device};
  if (const auto divided = nvml.is_divided(device); divided.ok() && *divided) {
    gpu.is_divided = true;
    for (const Device part : parts_of(nvml, device)) {
      devices.push_back(part);
      MigDevice found = look_at_part(nvml, part);
      if (!found.uuid.empty()) gpu.parts.push_back(std::move(found));  // without one no rank can be given it
    }
  }
  add_processes(nvml, devices, gpu);
  return gpu;
}

}  // namespace

base::Result<GpuReport> survey(NvmlApi& nvml) {
  GpuReport report;
  MUSTER_ASSIGN_OR_RETURN(const unsigned count, nvml.count());
  const std::string driver = text_or_nothing(nvml.driver_version());
  report.driver = driver.empty() ? "of unknown version" : driver;
  for (unsigned i = 0; i < count && i < kMaxGpus; ++i) {
    const auto device = nvml.gpu(i);
    if (device.status().code() == base::Code::kPermissionDenied) continue;
    auto gpu = device.ok() ? look_at_gpu(nvml, *device) : base::Result<NvidiaGpu>(device.status());
    if (gpu.ok()) {
      report.gpus.push_back(std::move(*gpu));
    } else if (report.problem.empty()) {
      report.problem = fmt::format("GPU {} cannot be used: {}: look at nvidia-smi and the kernel's log there", i,
                                   gpu.status().message())
                           .substr(0, kMaxText);
    }
  }
  return report;
}

}  // namespace muster::agent::gpus
