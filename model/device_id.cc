#include "model/device_id.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

enum class Naming { kUuid, kPart, kIndex, kCudaNumber, kOtherVendor };

Naming naming_of(std::string_view id) {
  if (is_mig_name(id)) return Naming::kPart;
  if (id.starts_with("GPU-")) return Naming::kUuid;
  if (id.starts_with("nvidia:")) return Naming::kIndex;
  return id.starts_with("cuda:") ? Naming::kCudaNumber : Naming::kOtherVendor;
}

// How many letters at the beginning of a name identify its kind (GPU-, MIG-, cuda, …).
constexpr std::size_t kOfNaming = 4;

bool has_part(const GpuShape& gpu, std::string_view id) {
  return std::ranges::find(gpu.parts, id, &GpuPart::uuid) != gpu.parts.end();
}

// `id` must not be a CUDA number.
bool may_be_called(const NodeShape& node, const GpuShape& gpu, Naming naming, std::string_view id) {
  if (gpu.vendor != GpuVendor::kNvidia) return false;
  if (naming == Naming::kIndex) return id == fmt::format("nvidia:{}", gpu.index);
  if (naming == Naming::kUuid) {
    const bool is_known = std::ranges::find(node.gpus, id, &GpuShape::uuid) != node.gpus.end();
    return is_known ? gpu.uuid == id : gpu.uuid.empty();
  }
  const bool is_known = std::ranges::any_of(node.gpus, [&](const GpuShape& each) { return has_part(each, id); });
  return is_known ? has_part(gpu, id) : gpu.memory_mib == 0 && gpu.parts.empty();
}

}  // namespace

std::string device_id(GpuVendor vendor, const VisibleGpu& device) {
  if (is_mig_name(device.name)) return device.name;
  if (device.gpu == nullptr) return "cuda:" + device.name;
  if (vendor == GpuVendor::kNvidia && !device.gpu->uuid.empty()) return device.gpu->uuid;
  const char* const name = vendor == GpuVendor::kIntel ? "intel" : vendor == GpuVendor::kAmd ? "amd" : "nvidia";
  if (!device.tile) return fmt::format("{}:{}", name, device.gpu->index);
  return fmt::format("{}:{}.{}", name, device.gpu->index, *device.tile);
}

std::string gpu_text(GpuVendor vendor, int index, const std::string& part) {
  const char* const make = vendor == GpuVendor::kAmd ? "AMD " : vendor == GpuVendor::kIntel ? "Intel " : "";
  const std::string text = fmt::format("{}GPU {}", make, index);
  return part.empty() ? text : fmt::format("{} of {}", base::printable(part), text);
}

bool is_same_device(std::string_view id, std::string_view other) {
  if (id.size() > other.size()) std::swap(id, other);
  if (!other.starts_with(id)) return false;
  return id.size() == other.size() || (other[id.size()] == '.' && other.starts_with("intel:"));
}

bool may_be_same_device(const NodeShape& node, std::string_view id, std::string_view other) {
  if (is_same_device(id, other)) return true;
  if (id.substr(0, kOfNaming) == other.substr(0, kOfNaming)) return false;  // most pairs differ here, so check it first
  const Naming naming = naming_of(id);
  const Naming others = naming_of(other);
  if (naming == others || naming == Naming::kOtherVendor || others == Naming::kOtherVendor) return false;
  if (naming == Naming::kCudaNumber || others == Naming::kCudaNumber) return true;
  return std::ranges::any_of(node.gpus, [&](const GpuShape& gpu) {
    return may_be_called(node, gpu, naming, id) && may_be_called(node, gpu, others, other);
  });
}

}  // namespace muster::model
