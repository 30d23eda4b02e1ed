#include "agent/gpus/helper/survey.h"

#include <algorithm>
#include <map>

namespace muster::agent::inline gpus {
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

MigDevice survey_part(NvmlApi& nvml, Device part) {
  MigDevice found;
  found.uuid = text_or_nothing(nvml.uuid(part));
  found.model = text_or_nothing(nvml.name(part));
  if (const auto memory = nvml.memory(part); memory.ok()) {
    found.memory_total = memory->total;
    found.memory_used = memory->used;
  }
  return found;
}

using Users = std::map<std::int32_t, std::optional<std::uint64_t>>;

void merge(const std::vector<GpuProcess>& processes, Users& users) {
  for (const GpuProcess& process : processes) {
    if (process.pid <= 0 || users.size() == kMaxProcesses) continue;
    auto& memory = users[process.pid];
    if (process.memory) memory = std::max(memory.value_or(0), *process.memory);
  }
}

std::vector<GpuProcess> by_pid(const Users& users) {
  std::vector<GpuProcess> processes;
  for (const auto& [pid, memory] : users) processes.push_back({pid, memory});
  return processes;
}

// Reads the processes of the device itself, without its parts. False if the device does not report them.
bool read_processes(NvmlApi& nvml, Device device, std::vector<GpuProcess>& processes) {
  const auto listed = nvml.processes(device);
  if (!listed.ok()) return false;
  Users users;
  merge(*listed, users);
  processes = by_pid(users);
  return true;
}

// A user without privileges sees a divided GPU's processes only on its parts. So read those, too.
void add_parts(NvmlApi& nvml, Device device, NvidiaGpu& gpu) {
  Users users;
  merge(gpu.processes, users);
  for (const Device part : parts_of(nvml, device)) {
    MigDevice found = survey_part(nvml, part);
    if (read_processes(nvml, part, found.processes)) gpu.knows_processes = true;
    merge(found.processes, users);
    // A rank cannot be given a part without a UUID.
    if (!found.uuid.empty()) gpu.parts.push_back(std::move(found));
  }
  gpu.processes = by_pid(users);
}

// INTERNAL: its UUID cannot be read.
base::Result<NvidiaGpu> survey_gpu(NvmlApi& nvml, Device device) {
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
  gpu.knows_processes = read_processes(nvml, device, gpu.processes);
  if (const auto divided = nvml.is_divided(device); divided.ok() && *divided) {
    gpu.is_divided = true;
    add_parts(nvml, device, gpu);
  }
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
    auto gpu = device.ok() ? survey_gpu(nvml, *device) : base::Result<NvidiaGpu>(device.status());
    if (gpu.ok()) {
      report.gpus.push_back(std::move(*gpu));
    } else if (report.problem.empty()) {
      report.problem = fmt::format("GPU {} of nvidia-smi cannot be used: {}; check nvidia-smi and the kernel log", i,
                                   gpu.status().message())
                           .substr(0, kMaxText);
    }
  }
  return report;
}

}  // namespace muster::agent::gpus
