#include "agent/gpus/gpu_names.h"

#include <fmt/format.h>

#include "base/strings.h"
#include "model/device_id.h"

namespace muster::agent::inline gpus {
namespace {

using gpus::FileGpu;
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

// Compare by PCI address only if the known GPU has no UUID yet. Otherwise another GPU may be in that slot now.
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

// The position in the files changes when a GPU has gone, so do not use it. Parts of an AMD GPU share one PCI address.
// Their order is fixed, because the driver adds them all at once.
GpuName name_of(const FileGpu& gpu, const std::vector<FileGpu>& seen, const std::vector<GpuShape>& known) {
  const GpuVendor vendor = gpu.is_intel ? GpuVendor::kIntel : GpuVendor::kAmd;
  const std::vector<const GpuShape*> all = all_of(vendor, known);
  if (all.empty()) return {.vendor = vendor, .index = gpu.index};
  std::vector<int> there;
  for (const GpuShape* each : all) {
    if (each->pci == gpu.pci) there.push_back(each->index);
  }
  std::size_t count = 0;
  std::size_t place = 0;
  for (const FileGpu& each : seen) {
    if (each.is_intel != gpu.is_intel || each.pci != gpu.pci) continue;
    ++count;
    if (each.index < gpu.index) ++place;
  }
  if (count != there.size() || place >= count) return {.vendor = vendor, .index = -1, .uuid = gpu.pci};
  return {.vendor = vendor, .index = there[place]};
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

}  // namespace muster::agent::gpus
