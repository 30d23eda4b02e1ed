#include "agent/gpus/helper/file_survey.h"

#include <unistd.h>

#include <algorithm>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "agent/gpus/drm_clients.h"
#include "agent/gpus/kernel_gpus.h"
#include "agent/gpus/pid_namespace.h"
#include "base/directory.h"
#include "base/strings.h"

namespace muster::agent::inline gpus {
namespace {

using Memory = std::optional<std::uint64_t>;
using Users = std::map<pid_t, Memory>;

// Users by the GPU's PCI address. A process that has opened a GPU and has no memory on it does not count as a user.
std::map<std::string, Users> drm_users_by_gpu(uid_t uid, const std::string& root) {
  std::map<std::string, Users> by_gpu;
  for (const DrmUser& user : read_drm_users(uid, root)) {
    if (user.client.memory == 0) continue;
    Memory& memory = by_gpu[user.client.pci][user.pid];
    if (user.client.memory) memory = memory.value_or(0) + *user.client.memory;
  }
  return by_gpu;
}

// Users by KFD's id of the GPU, from "proc/<pid>/vram_<id>" in KFD's folder of sysfs
// (drivers/gpu/drm/amd/amdkfd/kfd_process.c of Linux). All users' files may be read.
// A process is listed, by its pid on the host, until the driver has cleaned up after it.
// nullopt if this kernel does not list them (before 5.8).
std::optional<std::map<std::uint64_t, Users>> kfd_users_by_gpu(const std::vector<AmdGpu>& gpus,
                                                               const std::string& root) {
  std::map<std::uint64_t, Users> by_gpu;
  const std::string directory = root + "/sys/class/kfd/kfd/proc";
  if (::access(directory.c_str(), R_OK | X_OK) != 0) return std::nullopt;
  for (const std::string& name : base::entries_of(directory)) {
    const auto pid = base::parse_decimal(name, std::numeric_limits<pid_t>::max());
    if (!pid || *pid == 0) continue;
    for (const AmdGpu& gpu : gpus) {
      const auto bytes = read_number(fmt::format("{}/{}/vram_{}", directory, name, gpu.gpu_id));
      if (bytes && *bytes > 0) by_gpu[gpu.gpu_id][static_cast<pid_t>(*pid)] = *bytes;
    }
  }
  return by_gpu;
}

// The driver asks the GPU itself, and may have to wake it first.
std::optional<std::int32_t> busy_percent_of(const AmdGpu& gpu, const std::string& root) {
  const auto percent = read_number(fmt::format("{}/sys/bus/pci/devices/{}/gpu_busy_percent", root, gpu.pci));
  return percent && *percent <= 100 ? std::optional(static_cast<std::int32_t>(*percent)) : std::nullopt;
}

// KFD and DRM count the same memory, so take the larger amount instead of the sum.
void merge(const Users& from, Users& into) {
  for (const auto& [pid, memory] : from) {
    Memory& known = into[pid];
    if (memory) known = std::max(known.value_or(0), *memory);
  }
}

void set_processes(const Users& users, FileGpu& gpu) {
  for (const auto& [pid, memory] : users) {
    if (gpu.processes.size() == kMaxProcesses) return;
    gpu.processes.push_back({pid, memory});
  }
}

}  // namespace

std::vector<FileGpu> survey_files(uid_t uid, const std::string& root) {
  const std::vector<AmdGpu> amd = amd_gpus(root);
  const std::vector<IntelGpu> intel = intel_gpus(root);
  if (amd.empty() && intel.empty()) return {};
  auto by_pci = drm_users_by_gpu(uid, root);
  auto by_kfd = kfd_users_by_gpu(amd, root);
  const bool is_foreign = !is_in_host_namespace(root);
  // In /proc all users' processes are visible to root. Processes outside of the PID namespace never are.
  const bool sees_all = uid == 0 && !is_foreign;
  std::vector<FileGpu> found;
  for (std::size_t i = 0; i < amd.size() && i < kMaxGpus; ++i) {
    FileGpu& gpu = found.emplace_back();
    gpu.index = static_cast<std::int32_t>(i);
    gpu.pci = amd[i].pci;
    gpu.memory_used = memory_of(amd[i], root).used;
    gpu.busy_percent = busy_percent_of(amd[i], root);
    gpu.shows_all = by_kfd.has_value() || sees_all;
    gpu.shows_dead = by_kfd.has_value();
    gpu.foreign_pids = by_kfd.has_value() && is_foreign;
    Users users = by_kfd ? (*by_kfd)[amd[i].gpu_id] : Users();
    // DRM reports pids of our own PID namespace, and does not report which partition of a GPU a process uses.
    if (!gpu.foreign_pids && amd[i].is_whole) merge(by_pci[amd[i].pci], users);
    set_processes(users, gpu);
  }
  for (std::size_t i = 0; i < intel.size() && found.size() < kMaxGpus; ++i) {
    FileGpu& gpu = found.emplace_back();
    gpu.is_intel = true;
    gpu.index = static_cast<std::int32_t>(i);
    gpu.pci = intel[i].pci.substr(0, kMaxText);
    gpu.memory_used = memory_of(intel[i]).used;
    gpu.shows_all = sees_all;
    set_processes(by_pci[intel[i].pci], gpu);
  }
  return found;
}

std::vector<NvidiaFile> survey_nvidia_files(const std::string& root) {
  std::vector<NvidiaFile> gpus = nvidia_gpus(root);
  if (gpus.size() > kMaxGpus) gpus.resize(kMaxGpus);
  for (NvidiaFile& gpu : gpus) {
    for (std::string* const text : {&gpu.pci, &gpu.uuid, &gpu.model}) text->resize(std::min(text->size(), kMaxText));
  }
  return gpus;
}

}  // namespace muster::agent::gpus
