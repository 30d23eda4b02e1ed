#include "agent/gpus/nvidia_gpus.h"

#include <algorithm>
#include <iterator>

#include "agent/gpus/mebibytes.h"
#include "model/pinning.h"

namespace muster::agent::inline gpus {
namespace {

using gpus::GpuReport;
using gpus::NvidiaGpu;
using model::GpuShape;
using model::GpuVendor;

void describe(const NvidiaGpu& from, GpuShape& to) {
  to.vendor = GpuVendor::kNvidia;
  to.uuid = from.uuid;
  if (!from.model.empty()) to.model = from.model;
  if (!from.pci.empty()) to.pci = from.pci;
  to.memory_mib = mebibytes(from.memory_total);
  to.is_divided = from.is_divided;
  for (const gpus::MigDevice& part : from.parts) {
    if (to.parts.size() == std::size_t{model::kMostParts}) break;
    to.parts.push_back({part.uuid, part.model, mebibytes(part.memory_total)});
  }
}

}  // namespace

std::vector<GpuShape> with_report(const std::vector<GpuShape>& from_files, const GpuReport& report) {
  if (report.driver.empty()) return from_files;
  std::vector<GpuShape> all;
  for (const NvidiaGpu& gpu : report.gpus) {
    const auto same = std::ranges::find_if(from_files, [&](const GpuShape& shape) {
      return shape.vendor == GpuVendor::kNvidia && !shape.pci.empty() && shape.pci == gpu.pci;
    });
    GpuShape& shape = all.emplace_back(same == from_files.end() ? GpuShape() : *same);
    describe(gpu, shape);
    shape.index = static_cast<int>(all.size()) - 1;
  }
  std::ranges::copy_if(from_files, std::back_inserter(all),
                       [](const GpuShape& shape) { return shape.vendor != GpuVendor::kNvidia; });
  return all;
}

}  // namespace muster::agent::gpus
