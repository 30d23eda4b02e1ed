// Reads GPU masks as CUDA, ROCr and HIP do.
// Read visible_gpus() and visible_amd_gpus() at the end first, then read_mask(), which they call.
#include "model/gpu_mask.h"

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::model {
namespace {

constexpr long kMostMaskNumber = 4096;
constexpr std::pair<std::string_view, std::optional<std::string> GpuMasks::*> kMasks[] = {
    {"CUDA_VISIBLE_DEVICES", &GpuMasks::cuda},
    {"CUDA_DEVICE_ORDER", &GpuMasks::cuda_order},
    {"ROCR_VISIBLE_DEVICES", &GpuMasks::rocr},
    {"HIP_VISIBLE_DEVICES", &GpuMasks::hip},
    {"GPU_DEVICE_ORDINAL", &GpuMasks::ordinal},
    {"ZE_AFFINITY_MASK", &GpuMasks::ze},
    {"ZE_FLAT_DEVICE_HIERARCHY", &GpuMasks::ze_hierarchy},
    {"ZE_ENABLE_PCI_ID_DEVICE_ORDER", &GpuMasks::ze_order}};

// Returns the number at the start of the word, as strtol() finds it: 1 for "1" and "1gpu".
std::optional<long> leading_number(std::string_view word) {
  const auto end = std::min(word.find_first_not_of("0123456789"), word.size());
  return base::parse_decimal(word.substr(0, end), kMostMaskNumber);
}

const GpuShape* find_index(const std::vector<const GpuShape*>& all, std::string_view word) {
  const auto index = leading_number(word);
  const auto found = std::ranges::find_if(all, [&](const GpuShape* gpu) { return index && gpu->index == *index; });
  return found == all.end() ? nullptr : *found;
}

// Returns the GPU whose UUID starts with `beginning`. nullptr if there is none, or if there are several.
const GpuShape* find_uuid(const std::vector<const GpuShape*>& all, std::string_view beginning) {
  const GpuShape* found = nullptr;
  for (const GpuShape* gpu : all) {
    if (!gpu->uuid.starts_with(beginning)) continue;
    if (found != nullptr) return nullptr;
    found = gpu;
  }
  return found;
}

// MIG-GPU-<uuid>/1/0 contains the name of its GPU. MIG-<uuid>, which later drivers use, does not.
const GpuShape* gpu_of_mig(const std::vector<const GpuShape*>& all, std::string_view word) {
  for (const GpuShape* gpu : all) {
    if (std::ranges::find(gpu->parts, word, &GpuPart::uuid) != gpu->parts.end()) return gpu;
  }
  const std::string_view rest = word.substr(std::string_view("MIG-").size());
  return rest.starts_with("GPU-") ? find_uuid(all, rest.substr(0, rest.find('/'))) : nullptr;
}

bool is_repeated(const std::vector<VisibleGpu>& visible, const VisibleGpu& entry) {
  return std::ranges::any_of(visible, [&](const VisibleGpu& other) {
    const bool is_by_name = is_mig_name(entry.name) || is_mig_name(other.name) || entry.gpu == nullptr;
    return is_by_name ? other.name == entry.name : other.gpu == entry.gpu;
  });
}

// Returns whether the GPU has a UUID that no other GPU has.
bool has_own_uuid(const GpuShape& gpu, const std::vector<const GpuShape*>& all) {
  return !gpu.uuid.empty() && std::ranges::count(all, gpu.uuid, &GpuShape::uuid) == 1;
}

std::vector<const GpuShape*> gpus_of(const NodeShape& node, GpuVendor vendor) {
  std::vector<const GpuShape*> all;
  for (const GpuShape& gpu : node.gpus) {
    if (gpu.vendor == vendor) all.push_back(&gpu);
  }
  return all;
}

// Returns the GPU itself, or its parts if it is divided. The caller must set the name of a whole GPU.
std::vector<VisibleGpu> devices_of(const GpuShape& gpu) {
  if (!gpu.is_divided) return {{"", &gpu}};
  std::vector<VisibleGpu> parts;
  for (const GpuPart& part : gpu.parts) parts.push_back({part.uuid, &gpu});
  return parts;
}

// Returns the device for a number in CUDA's own order. Only its existence is known. Empty if the number is too large.
std::vector<VisibleGpu> unknown_number(const std::vector<const GpuShape*>& all, std::string_view word) {
  const auto number = leading_number(word);
  if (!number || static_cast<std::size_t>(*number) >= all.size()) return {};
  return {{fmt::format("{}", *number), nullptr}};
}

std::vector<VisibleGpu> read_mask(const std::vector<const GpuShape*>& all, std::string_view mask, MaskNumbers numbers) {
  const bool has_mig = !all.empty() && all.front()->vendor == GpuVendor::kNvidia;
  const bool knows_uuids = std::ranges::none_of(all, [](const GpuShape* gpu) { return gpu->uuid.empty(); });
  std::vector<VisibleGpu> visible;
  for (std::string_view word : base::split(mask, ',')) {
    word = base::trim(word);
    std::vector<VisibleGpu> entries;
    if (has_mig && is_mig_name(word)) {
      entries = {{std::string(word), gpu_of_mig(all, word)}};
    } else if (numbers == MaskNumbers::kUnknown && !word.starts_with("GPU-")) {
      entries = unknown_number(all, word);
      if (entries.empty()) break;
    } else {
      const bool is_uuid = word.starts_with("GPU-");
      const GpuShape* const gpu = is_uuid ? find_uuid(all, word) : find_index(all, word);
      if (gpu == nullptr && is_uuid && !knows_uuids) return {};  // `word` may name a GPU with an unknown UUID
      if (gpu == nullptr) break;
      entries = devices_of(*gpu);
    }
    for (VisibleGpu& entry : entries) {
      if (is_repeated(visible, entry)) return {};
      visible.push_back(std::move(entry));
    }
  }
  return visible;
}

}  // namespace

bool is_mig_name(std::string_view name) {
  return name.starts_with("MIG-");
}

void set_gpu_masks(const std::vector<std::pair<std::string, std::string>>& variables, GpuMasks& masks) {
  for (const auto& [name, value] : variables) {
    for (const auto& [mask, member] : kMasks) {
      if (name == mask) masks.*member = value;
    }
  }
}

std::vector<std::pair<std::string, std::string>> gpu_mask_variables(const GpuMasks& masks) {
  std::vector<std::pair<std::string, std::string>> variables;
  for (const auto& [name, member] : kMasks) {
    if (masks.*member) variables.emplace_back(name, *(masks.*member));
  }
  return variables;
}

MaskNumbers cuda_numbers(const NodeShape& node, const GpuMasks& masks) {
  if (masks.cuda_order == "PCI_BUS_ID") return MaskNumbers::kByBus;
  const std::vector<const GpuShape*> all = gpus_of(node, GpuVendor::kNvidia);
  const bool is_alike = std::ranges::all_of(all, [&](const GpuShape* gpu) { return gpu->model == all.front()->model; });
  return is_alike ? MaskNumbers::kByBus : MaskNumbers::kUnknown;
}

std::vector<VisibleGpu> visible_gpus(const NodeShape& node, GpuVendor vendor, const std::optional<std::string>& mask,
                                     MaskNumbers numbers) {
  const std::vector<const GpuShape*> all = gpus_of(node, vendor);
  std::vector<VisibleGpu> visible;
  if (mask) {
    visible = read_mask(all, *mask, numbers);
  } else {
    for (const GpuShape* gpu : all) {
      for (VisibleGpu& device : devices_of(*gpu)) visible.push_back(std::move(device));
    }
  }
  const auto is_mig = [](const VisibleGpu& entry) { return is_mig_name(entry.name); };
  const auto is_number = [&](const VisibleGpu& entry) { return entry.gpu == nullptr && !is_mig(entry); };
  const bool has_uuids = std::ranges::all_of(visible, [&](const VisibleGpu& entry) {
    return entry.gpu == nullptr || is_mig(entry) || has_own_uuid(*entry.gpu, all);
  });
  // No runtime accepts an index and a MIG device in one list.
  const bool has_numbers = !has_uuids || std::ranges::any_of(visible, is_number);
  if (has_numbers && std::ranges::any_of(visible, is_mig)) return {};
  for (VisibleGpu& entry : visible) {
    if (!entry.name.empty()) continue;
    entry.name = has_uuids ? entry.gpu->uuid : fmt::format("{}", entry.gpu->index);
  }
  return visible;
}

std::vector<VisibleGpu> visible_amd_gpus(const NodeShape& node, const GpuMasks& masks) {
  std::vector<VisibleGpu> pool = visible_gpus(node, GpuVendor::kAmd, masks.rocr);
  // HIP ignores an empty list (rocdevice.cpp of ROCclr). ROCr does not: its empty list, handled above, hides all GPUs.
  const std::optional<std::string>& mask = masks.hip && !masks.hip->empty() ? masks.hip : masks.cuda;
  if (!mask || mask->empty()) return pool;
  std::vector<const GpuShape*> gpus;
  for (const VisibleGpu& entry : pool) gpus.push_back(entry.gpu);
  std::vector<VisibleGpu> visible;
  for (const std::string_view word : base::split(*mask, ',')) {
    const VisibleGpu* found = nullptr;
    if (word.starts_with("GPU-")) {
      const GpuShape* const gpu = find_uuid(gpus, word);
      for (const VisibleGpu& entry : pool) {
        if (gpu != nullptr && entry.gpu == gpu) found = &entry;
      }
    } else if (const auto number = base::parse_decimal(word, kMostMaskNumber);
               number && word == std::to_string(*number)) {
      if (static_cast<std::size_t>(*number) < pool.size()) found = &pool[static_cast<std::size_t>(*number)];
    }
    if (found == nullptr) break;
    if (!is_repeated(visible, *found)) visible.push_back(*found);
  }
  return visible;
}

}  // namespace muster::model
