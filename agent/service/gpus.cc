#include "agent/service/gpus.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "agent/service/nvidia_gpus.h"
#include "base/cpu_set.h"
#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"
#include "model/pinning.h"

namespace muster::agent {
namespace {

using model::GpuShape;
using model::GpuVendor;

constexpr std::size_t kMostBytes = 64 << 10;
constexpr long kMostNodes = 4096;
// Somebody waits for a job to start: GPUs that are slower to wake are taken from files.
constexpr std::chrono::milliseconds kStartPatience{5'000};

// Lines of a key, `separator` and a value.
std::map<std::string, std::string> read_fields(const std::string& path, char separator) {
  std::map<std::string, std::string> fields;
  const auto content = base::read_file(path, kMostBytes);
  if (!content.ok()) return fields;
  for (const std::string_view line : base::split(*content, '\n')) {
    const auto at = line.find(separator);
    if (at == std::string_view::npos) continue;
    fields[std::string(base::trim(line.substr(0, at)))] = std::string(base::trim(line.substr(at + 1)));
  }
  return fields;
}

std::uint64_t unsigned_field(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  std::uint64_t value = 0;
  if (found != fields.end()) {
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  }
  return value;
}

std::string text_field(const std::map<std::string, std::string>& fields, const std::string& name) {
  const auto found = fields.find(name);
  return found == fields.end() ? "" : found->second;
}

// Fills numa and cpus. The kernel answers -1 and all CPUs where the firmware says nothing.
void place(const model::NodeShape& node, const std::string& root, GpuShape& gpu) {
  const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci;
  const auto numa = base::read_file(device + "/numa_node", kMostBytes);
  const auto list = base::read_file(device + "/local_cpulist", kMostBytes);
  if (!numa.ok() || !list.ok() || base::trim(*numa).starts_with('-')) return;
  gpu.cpus = base::parse_number_list(base::trim(*list), base::kMaxCpu).value_or(std::vector<int>());
  for (const model::CoreShape& core : node.cores) {
    if (std::ranges::binary_search(gpu.cpus, core.cpus.front())) {
      gpu.numa = core.numa;
      break;
    }
  }
}

// The driver does not know a GPU's UUID before its first use since boot, and writes '?' until then.
std::string known_uuid(const std::string& uuid) {
  return uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos ? uuid : "";
}

std::vector<GpuShape> find_nvidia(const std::string& root) {
  const std::string directory = root + "/proc/driver/nvidia/gpus";
  std::vector<GpuShape> gpus;
  for (const std::string& address : base::entries_of(directory)) {  // all of one length: sorted as PCI counts
    const auto fields = read_fields(directory + "/" + address + "/information", ':');
    if (fields.empty() || text_field(fields, "GPU Excluded") == "Yes") continue;
    GpuShape& gpu = gpus.emplace_back();
    gpu.index = static_cast<int>(gpus.size()) - 1;
    gpu.uuid = known_uuid(text_field(fields, "GPU UUID"));
    gpu.model = text_field(fields, "Model");
    gpu.pci = address;
  }
  return gpus;
}

std::vector<GpuShape> find_amd(const std::string& root) {
  const std::string directory = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<long> numbers;
  for (const std::string& name : base::entries_of(directory)) {
    if (const auto number = base::parse_decimal(name, kMostNodes)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  std::vector<GpuShape> gpus;
  for (const long number : numbers) {
    const std::string node = fmt::format("{}/{}", directory, number);
    // Not readable where a cgroup keeps the GPU from us: ROCr does not count it then, either.
    const auto fields = read_fields(node + "/properties", ' ');
    if (unsigned_field(fields, "simd_count") == 0) continue;  // a processor
    GpuShape& gpu = gpus.emplace_back();
    gpu.vendor = GpuVendor::kAmd;
    gpu.index = static_cast<int>(gpus.size()) - 1;
    if (const auto id = unsigned_field(fields, "unique_id"); id != 0) gpu.uuid = fmt::format("GPU-{:016x}", id);
    const auto name = base::read_file(node + "/name", kMostBytes);
    if (name.ok()) gpu.model = std::string(base::trim(*name));
    const std::uint64_t location = unsigned_field(fields, "location_id");
    gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", unsigned_field(fields, "domain"), location >> 8 & 0xff,
                          location >> 3 & 0x1f, location & 7);
  }
  return gpus;
}

// Parts of the GPU that its driver shows: xe calls them tiles, i915 graphics of its own.
int count_tiles(const std::string& card) {
  const auto count = [](const std::string& directory, std::string_view prefix) {
    return static_cast<int>(std::ranges::count_if(base::entries_of(directory), [&](const std::string& name) {
      return name.starts_with(prefix) && base::parse_decimal(std::string_view(name).substr(prefix.size()), kMostNodes);
    }));
  };
  const int tiles = count(card + "/device", "tile");
  return std::clamp(tiles > 0 ? tiles : count(card + "/gt", "gt"), 1, model::kMostTiles);
}

// Those of class "display controller", as all made for servers are; one that drives a screen is a processor's own.
std::vector<GpuShape> find_intel(const std::string& root) {
  const std::string directory = root + "/sys/class/drm";
  std::vector<GpuShape> gpus;
  for (const std::string& name : base::entries_of(directory)) {
    constexpr std::string_view kCard = "card";
    if (!name.starts_with(kCard) || !base::parse_decimal(std::string_view(name).substr(kCard.size()), kMostNodes)) {
      continue;
    }
    const std::string card = directory + "/" + name;
    const auto vendor = base::read_file(card + "/device/vendor", kMostBytes);
    const auto kind = base::read_file(card + "/device/class", kMostBytes);
    if (!vendor.ok() || !kind.ok() || base::trim(*vendor) != "0x8086" || !kind->starts_with("0x0380")) continue;
    GpuShape& gpu = gpus.emplace_back();
    gpu.vendor = GpuVendor::kIntel;
    gpu.pci = text_field(read_fields(card + "/device/uevent", '='), "PCI_SLOT_NAME");
    gpu.tiles = count_tiles(card);
  }
  std::ranges::sort(gpus, {}, &GpuShape::pci);
  for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
  return gpus;
}

}  // namespace

std::vector<GpuShape> find_gpus(const model::NodeShape& node, const std::string& root, const gpus::GpuReport& nvidia) {
  std::vector<GpuShape> gpus = with_report(find_nvidia(root), nvidia);
  for (const std::vector<GpuShape>& more : {find_amd(root), find_intel(root)}) {
    gpus.insert(gpus.end(), more.begin(), more.end());
  }
  for (GpuShape& gpu : gpus) place(node, root, gpu);
  return gpus;
}

NvidiaLook ask_nvidia_blocking(const base::Environment& login_environment) {
  NvidiaLook look;
  if (!gpus::has_nvidia_driver()) return look;
  auto report = gpus::survey_blocking(login_environment, kStartPatience, &look.hung);
  look.report = report.ok() ? *std::move(report) : gpus::GpuReport{.problem = report.status().message()};
  return look;
}

}  // namespace muster::agent
