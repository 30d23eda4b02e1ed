#include "agent/gpus/gpus.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "agent/gpus/kernel_gpus.h"
#include "agent/gpus/mebibytes.h"
#include "agent/gpus/nvidia_gpus.h"
#include "base/cpu_set.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"
#include "model/pinning.h"

namespace muster::agent::inline gpus {
namespace {

using model::GpuShape;
using model::GpuVendor;

constexpr std::size_t kLongestSysfsFile = 64 << 10;
// This time is short, because a job's start waits for it. If the GPUs take longer to wake, files describe them.
constexpr std::chrono::milliseconds kStartPatience{5'000};
constexpr std::chrono::milliseconds kFilesPatience{2'000};

// Sets numa and cpus. If the firmware says nothing, the kernel's files contain -1 and all CPUs.
void place(const model::NodeShape& node, const std::string& root, GpuShape& gpu) {
  const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci;
  const auto numa = base::read_file(device + "/numa_node", kLongestSysfsFile);
  const auto list = base::read_file(device + "/local_cpulist", kLongestSysfsFile);
  if (!numa.ok() || !list.ok() || base::trim(*numa).starts_with('-')) return;
  gpu.cpus = base::parse_number_list(base::trim(*list), base::kMaxCpu).value_or(std::vector<int>());
  for (const model::CoreShape& core : node.cores) {
    if (std::ranges::binary_search(gpu.cpus, core.cpus.front())) {
      gpu.numa = core.numa;
      break;
    }
  }
}

std::vector<GpuShape> shapes_of(const std::vector<gpus::NvidiaFile>& files) {
  std::vector<GpuShape> gpus;
  for (const gpus::NvidiaFile& file : files) {
    GpuShape& gpu = gpus.emplace_back();
    gpu.index = static_cast<int>(gpus.size()) - 1;
    gpu.uuid = file.uuid;
    gpu.model = file.model;
    gpu.pci = file.pci;
  }
  return gpus;
}

std::vector<GpuShape> find_amd(const std::string& root) {
  std::vector<GpuShape> gpus;
  for (const gpus::AmdGpu& found : gpus::amd_gpus(root)) {
    GpuShape& gpu = gpus.emplace_back();
    gpu.vendor = GpuVendor::kAmd;
    gpu.index = static_cast<int>(gpus.size()) - 1;
    gpu.uuid = found.uuid;
    gpu.model = found.model;
    gpu.pci = found.pci;
    gpu.memory_mib = mebibytes(gpus::memory_of(found, root).total.value_or(0));
  }
  return gpus;
}

std::vector<GpuShape> find_intel(const std::string& root) {
  std::vector<GpuShape> gpus;
  for (const gpus::IntelGpu& found : gpus::intel_gpus(root)) {
    GpuShape& gpu = gpus.emplace_back();
    gpu.vendor = GpuVendor::kIntel;
    gpu.index = static_cast<int>(gpus.size()) - 1;
    gpu.pci = found.pci;
    gpu.tiles = std::min(found.tiles, model::kMostTiles);
    gpu.memory_mib = mebibytes(gpus::memory_of(found).total.value_or(0));
  }
  return gpus;
}

}  // namespace

std::vector<GpuShape> find_gpus(const model::NodeShape& node, const std::string& root, const gpus::GpuReport& nvidia) {
  std::vector<GpuShape> gpus =
      with_report(shapes_of(nvidia.nvidia_files ? *nvidia.nvidia_files : gpus::nvidia_gpus(root)), nvidia);
  for (const std::vector<GpuShape>& more : {find_amd(root), find_intel(root)}) {
    gpus.insert(gpus.end(), more.begin(), more.end());
  }
  for (GpuShape& gpu : gpus) place(node, root, gpu);
  return gpus;
}

gpus::Question question_about(const v1::Hello& hello, bool has_nvidia_driver) {
  return {.nvidia = has_nvidia_driver || !hello.gpu_driver().empty(),
          .files = std::ranges::any_of(hello.gpus(), [](const v1::Gpu& gpu) {
            return gpu.vendor() == v1::GPU_VENDOR_AMD || gpu.vendor() == v1::GPU_VENDOR_INTEL;
          })};
}

NvidiaSurvey ask_nvidia_blocking(const base::Environment& login_environment) {
  NvidiaSurvey survey;
  if (!gpus::has_nvidia_driver()) return survey;
  std::optional<gpus::Helper> hung;
  auto report = gpus::survey_blocking(login_environment, kStartPatience, &hung);
  survey.report = report.ok() ? *std::move(report) : gpus::GpuReport{.problem = report.status().message()};
  if (!hung) return survey;
  // A driver that hangs the library may also hang a reader of its files, so let another helper read them.
  survey.hung.push_back(*std::exchange(hung, std::nullopt));
  auto files = gpus::survey_blocking(login_environment, kFilesPatience, &hung, {.nvidia = false, .nvidia_files = true});
  if (hung) survey.hung.push_back(*std::move(hung));
  survey.report.nvidia_files = files.ok() ? std::move(files->nvidia_files) : std::vector<gpus::NvidiaFile>();
  return survey;
}

}  // namespace muster::agent::gpus
