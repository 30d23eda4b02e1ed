// Reads the GPUs of each vendor from the kernel's files. Read read_fields() first, then nvidia_gpus(), amd_gpus() and
// intel_gpus(), one for each vendor, then memory_of().
#include "agent/gpus/kernel_gpus.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "base/directory.h"
#include "base/file.h"
#include "base/strings.h"

namespace muster::agent::inline gpus {
namespace {

constexpr std::size_t kMostBytes = 64 << 10;
constexpr long kMostNodes = 4096;
constexpr int kMostTiles = 64;  // for one GPU

std::optional<std::uint64_t> number_of(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (code != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::uint64_t number_in(const Fields& fields, std::string_view name) {
  const auto found = fields.find(name);
  return found == fields.end() ? 0 : number_of(found->second).value_or(0);
}

std::optional<long> number_behind(std::string_view name, std::string_view prefix) {
  if (!name.starts_with(prefix)) return std::nullopt;
  return base::parse_decimal(name.substr(prefix.size()), kMostNodes);
}

// Returns the number of the GPU's parts that its driver shows: xe's folders device/tile0, tile1, …, or i915's folders
// gt/gt0, gt1, …
int count_tiles(const std::string& card) {
  const auto count = [](const std::string& directory, std::string_view prefix) {
    return static_cast<int>(std::ranges::count_if(
        base::entries_of(directory), [&](const std::string& name) { return number_behind(name, prefix).has_value(); }));
  };
  const int tiles = count(card + "/device", "tile");
  return std::clamp(tiles > 0 ? tiles : count(card + "/gt", "gt"), 1, kMostTiles);
}

}  // namespace

Fields read_fields(const std::string& path, char separator) {
  Fields fields;
  const auto content = base::read_file(path, kMostBytes);
  if (!content.ok()) return fields;
  for (const std::string_view line : base::split(*content, '\n')) {
    const auto at = line.find(separator);
    if (at == std::string_view::npos) continue;
    fields[std::string(base::trim(line.substr(0, at)))] = std::string(base::trim(line.substr(at + 1)));
  }
  return fields;
}

std::optional<std::uint64_t> read_number(const std::string& path) {
  const auto content = base::read_file(path, kMostBytes);
  return content.ok() ? number_of(base::trim(*content)) : std::nullopt;
}

std::vector<NvidiaFile> nvidia_gpus(const std::string& root) {
  const std::string directory = root + "/proc/driver/nvidia/gpus";
  const auto text = [](const Fields& fields, const char* name) {
    const auto found = fields.find(name);
    return found == fields.end() ? std::string() : found->second;
  };
  std::vector<NvidiaFile> gpus;
  // All addresses have the same length, so the order of the names is the order of the PCI addresses.
  for (const std::string& address : base::entries_of(directory)) {
    const Fields fields = read_fields(directory + "/" + address + "/information", ':');
    if (fields.empty() || text(fields, "GPU Excluded") == "Yes") continue;
    NvidiaFile& gpu = gpus.emplace_back();
    gpu.pci = address;
    gpu.model = text(fields, "Model");
    // The UUID contains '?' until the GPU's first use since boot.
    const std::string uuid = text(fields, "GPU UUID");
    if (uuid.starts_with("GPU-") && uuid.find('?') == std::string::npos) gpu.uuid = uuid;
  }
  return gpus;
}

std::vector<AmdGpu> amd_gpus(const std::string& root) {
  const std::string directory = root + "/sys/class/kfd/kfd/topology/nodes";
  std::vector<long> numbers;
  for (const std::string& name : base::entries_of(directory)) {
    if (const auto number = base::parse_decimal(name, kMostNodes)) numbers.push_back(*number);
  }
  std::ranges::sort(numbers);
  std::vector<AmdGpu> gpus;
  for (const long number : numbers) {
    const std::string node = fmt::format("{}/{}", directory, number);
    // The file is not readable if a cgroup keeps the GPU from us. ROCr does not count the GPU then, either.
    const Fields fields = read_fields(node + "/properties", ' ');
    if (number_in(fields, "simd_count") == 0) continue;  // a node without SIMD units is a processor
    AmdGpu& gpu = gpus.emplace_back();
    gpu.gpu_id = read_number(node + "/gpu_id").value_or(0);
    if (const auto id = number_in(fields, "unique_id"); id != 0) gpu.uuid = fmt::format("GPU-{:016x}", id);
    const auto name = base::read_file(node + "/name", kMostBytes);
    if (name.ok()) gpu.model = std::string(base::trim(*name));
    const std::uint64_t location = number_in(fields, "location_id");
    gpu.pci = fmt::format("{:04x}:{:02x}:{:02x}.{:x}", number_in(fields, "domain"), location >> 8 & 0xff,
                          location >> 3 & 0x1f, location & 7);
  }
  for (AmdGpu& gpu : gpus) gpu.is_whole = std::ranges::count(gpus, gpu.pci, &AmdGpu::pci) == 1;
  return gpus;
}

std::vector<IntelGpu> intel_gpus(const std::string& root) {
  const std::string directory = root + "/sys/class/drm";
  std::vector<IntelGpu> gpus;
  for (const std::string& name : base::entries_of(directory)) {
    if (!number_behind(name, "card")) continue;
    const std::string card = directory + "/" + name;
    const auto vendor = base::read_file(card + "/device/vendor", kMostBytes);
    const auto kind = base::read_file(card + "/device/class", kMostBytes);
    if (!vendor.ok() || !kind.ok() || base::trim(*vendor) != "0x8086" || !kind->starts_with("0x0380")) continue;
    IntelGpu& gpu = gpus.emplace_back();
    gpu.card = card;
    const Fields event = read_fields(card + "/device/uevent", '=');
    if (const auto slot = event.find("PCI_SLOT_NAME"); slot != event.end()) gpu.pci = slot->second;
    gpu.tiles = count_tiles(card);
  }
  std::ranges::sort(gpus, {}, &IntelGpu::pci);
  return gpus;
}

// Files of the amdgpu driver ("mem_info_vram_total", "mem_info_vram_used": Documentation/gpu/amdgpu of Linux). They
// describe the whole PCI device.
GpuMemory memory_of(const AmdGpu& gpu, const std::string& root) {
  if (!gpu.is_whole) return {};
  const std::string device = root + "/sys/bus/pci/devices/" + gpu.pci;
  GpuMemory memory{read_number(device + "/mem_info_vram_total"), read_number(device + "/mem_info_vram_used")};
  // Ignore an impossible value.
  if (memory.total && memory.used && *memory.used > *memory.total) memory.used.reset();
  return memory;
}

// The i915 and xe drivers of Linux have no file for GPU memory. (xe had one before it became part of Linux.) Intel's
// i915 for servers has the two files that are read here (i915_sysfs.c of intel-gpu-i915-backports).
GpuMemory memory_of(const IntelGpu& gpu) {
  GpuMemory memory{.total = read_number(gpu.card + "/lmem_total_bytes")};
  const auto available = read_number(gpu.card + "/lmem_avail_bytes");
  if (memory.total && available && *available <= *memory.total) memory.used = *memory.total - *available;
  return memory;
}

}  // namespace muster::agent::gpus
