#include "agent/service/gpu_names.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/device_id.h"

namespace muster::agent {
namespace {

using model::GpuShape;
using model::GpuVendor;

std::vector<const GpuShape*> all_of(GpuVendor vendor, const std::vector<GpuShape>& known) {
  std::vector<const GpuShape*> all;
  for (const GpuShape& gpu : known) {
    if (gpu.vendor == vendor) all.push_back(&gpu);
  }
  return all;
}

}  // namespace

// By its address only where its UUID was not known yet: in that slot may be another one by now.
GpuName name_of(const gpus::NvidiaGpu& gpu, std::size_t place, const std::vector<GpuShape>& known) {
  const std::vector<const GpuShape*> all = all_of(GpuVendor::kNvidia, known);
  if (all.empty()) return {.vendor = GpuVendor::kNvidia, .index = static_cast<int>(place)};
  for (const GpuShape* each : all) {
    if (!each->uuid.empty() && each->uuid == gpu.uuid) return {.vendor = GpuVendor::kNvidia, .index = each->index};
  }
  for (const GpuShape* each : all) {
    if (each->uuid.empty() && !gpu.pci.empty() && each->pci == gpu.pci) {
      return {.vendor = GpuVendor::kNvidia, .index = each->index};
    }
  }
  return {.vendor = GpuVendor::kNvidia, .index = -1, .uuid = gpu.uuid};
}

// Files count anew when one has gone; parts of AMD's have one address.
GpuName name_of(const gpus::FileGpu& gpu, const std::vector<GpuShape>& known) {
  const GpuVendor vendor = gpu.is_intel ? GpuVendor::kIntel : GpuVendor::kAmd;
  const std::vector<const GpuShape*> all = all_of(vendor, known);
  const auto is_at = [&](const GpuShape* each) { return each->pci.empty() || gpu.pci.empty() || each->pci == gpu.pci; };
  const auto same =
      std::ranges::find_if(all, [&](const GpuShape* each) { return each->index == gpu.index && is_at(each); });
  if (all.empty() || same != all.end()) return {.vendor = vendor, .index = gpu.index};
  if (std::ranges::count_if(all, is_at) == 1)
    return {.vendor = vendor, .index = (*std::ranges::find_if(all, is_at))->index};
  return {.vendor = vendor, .index = -1, .uuid = gpu.pci};
}

GpuName part_of(const GpuName& gpu, const std::string& uuid) {
  return {.vendor = gpu.vendor, .index = gpu.index, .uuid = uuid};
}

std::string text_of(const GpuName& name) {
  if (name.index >= 0) return model::gpu_text(name.vendor, name.index, name.uuid);
  const std::string uuid = base::printable(name.uuid);
  if (name.vendor == GpuVendor::kNvidia) return uuid;
  return fmt::format("the {} GPU at {}", name.vendor == GpuVendor::kAmd ? "AMD" : "Intel", uuid);
}

}  // namespace muster::agent
