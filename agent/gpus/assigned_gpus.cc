#include "agent/gpus/assigned_gpus.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "model/gpu_mask.h"
#include "model/intel_gpus.h"

namespace muster::agent::inline gpus {
namespace {

using model::GpuMasks;
using model::GpuShape;
using model::GpuVendor;
using model::NodeShape;
using model::VisibleGpu;
using Mask = std::optional<std::string>;

bool has_vendor(const NodeShape& node, GpuVendor vendor) {
  return std::ranges::any_of(node.gpus, [&](const GpuShape& gpu) { return gpu.vendor == vendor; });
}

// False if the mask names a GPU by UUID while the UUID of some GPU is unknown. Such a mask may mean any GPU.
bool is_readable(const NodeShape& node, GpuVendor vendor, const Mask& mask) {
  const bool knows_uuids =
      std::ranges::none_of(node.gpus, [&](const GpuShape& gpu) { return gpu.vendor == vendor && gpu.uuid.empty(); });
  return knows_uuids || !mask || mask->find("GPU-") == std::string::npos;
}

bool is_set(const Mask& mask) {
  return mask && !mask->empty() && *mask != "-1" && *mask != "NoDevFiles";
}

GpuName name_of(const VisibleGpu& device) {
  const GpuName gpu{.vendor = device.gpu->vendor, .index = device.gpu->index};
  return model::is_mig_name(device.name) ? part_of(gpu, device.name) : gpu;
}

// nullopt if the GPUs cannot be determined.
std::optional<std::vector<VisibleGpu>> nvidia(const NodeShape& node, const GpuMasks& masks) {
  std::vector<VisibleGpu> seen =
      model::visible_gpus(node, GpuVendor::kNvidia, masks.cuda, model::cuda_numbers(node, masks));
  const bool is_known = std::ranges::all_of(seen, [](const VisibleGpu& each) { return each.gpu != nullptr; });
  if (!is_known || (seen.empty() && !is_readable(node, GpuVendor::kNvidia, masks.cuda))) return std::nullopt;
  return seen;
}

std::optional<std::vector<VisibleGpu>> amd(const NodeShape& node, const GpuMasks& masks) {
  std::vector<VisibleGpu> seen = model::visible_amd_gpus(node, masks);
  const Mask& hip = masks.hip && !masks.hip->empty() ? masks.hip : masks.cuda;
  const bool is_readable_all =
      is_readable(node, GpuVendor::kAmd, masks.rocr) && is_readable(node, GpuVendor::kAmd, hip);
  if (seen.empty() && !is_readable_all) return std::nullopt;
  return seen;
}

std::optional<std::vector<VisibleGpu>> intel(const NodeShape& node, const GpuMasks& masks) {
  auto seen = model::intel_devices(node, model::GpuBind::kOne, masks);
  if (!seen.ok() || !model::are_numbers_of_bus(masks)) return std::nullopt;
  return *std::move(seen);
}

}  // namespace

void AssignedGpus::add(const std::vector<GpuShape>& known, const GpuMasks& masks) {
  const NodeShape node{.cores = {}, .memory_mib = 0, .gpus = known, .gpu_masks = {}};
  const auto take = [&](GpuVendor vendor, const auto& read) {
    const auto seen = has_vendor(node, vendor) ? read(node, masks) : std::nullopt;
    if (!seen) whole_.insert(vendor);
    if (!seen) return;
    for (const VisibleGpu& device : *seen) gpus_.insert(name_of(device));
  };
  // HIP reads CUDA's mask as its own. So on a host with only AMD's GPUs that mask counts for AMD's.
  const bool is_cudas = !has_vendor(node, GpuVendor::kAmd) || has_vendor(node, GpuVendor::kNvidia);
  if (is_set(masks.cuda) && is_cudas) take(GpuVendor::kNvidia, nvidia);
  if (is_set(masks.rocr) || is_set(masks.hip) || (is_set(masks.cuda) && !is_cudas)) take(GpuVendor::kAmd, amd);
  if (is_set(masks.ze)) take(GpuVendor::kIntel, intel);
}

void AssignedGpus::add(const AssignedGpus& more) {
  whole_.insert(more.whole_.begin(), more.whole_.end());
  gpus_.insert(more.gpus_.begin(), more.gpus_.end());
}

bool AssignedGpus::has(const GpuName& name) const {
  if (whole_.contains(name.vendor) || gpus_.contains(name)) return true;
  if (name.index < 0) return false;
  if (!name.uuid.empty()) return gpus_.contains({.vendor = name.vendor, .index = name.index});
  return std::ranges::any_of(
      gpus_, [&](const GpuName& assigned) { return assigned.vendor == name.vendor && assigned.index == name.index; });
}

bool AssignedGpus::has_any_of(GpuVendor vendor) const {
  return whole_.contains(vendor) ||
         std::ranges::any_of(gpus_, [&](const GpuName& assigned) { return assigned.vendor == vendor; });
}

GpuMasks masks_in(const std::vector<std::string>& environment) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const std::string& entry : environment) {
    const auto equals = entry.find('=');
    if (equals != std::string::npos) variables.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  GpuMasks masks;
  model::set_gpu_masks(variables, masks);
  return masks;
}

}  // namespace muster::agent::gpus
