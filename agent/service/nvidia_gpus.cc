#include "agent/service/nvidia_gpus.h"

#include <algorithm>
#include <iterator>

#include "model/pinning.h"

namespace muster::agent {
namespace {

using gpus::GpuReport;
using gpus::NvidiaGpu;
using model::GpuShape;
using model::GpuVendor;

constexpr int kBytesPerMibBits = 20;

long mebibytes(std::uint64_t bytes) {
  return static_cast<long>(bytes >> kBytesPerMibBits);
}

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

std::vector<v1::GpuLoad> loads_of(const google::protobuf::RepeatedPtrField<v1::Gpu>& in_hello,
                                  const GpuReport& report) {
  std::vector<v1::GpuLoad> loads;
  for (const v1::Gpu& gpu : in_hello) {
    const auto found = std::ranges::find(report.gpus, gpu.uuid(), &NvidiaGpu::uuid);
    if (gpu.vendor() != v1::GPU_VENDOR_NVIDIA || found == report.gpus.end()) continue;
    v1::GpuLoad& load = loads.emplace_back();
    load.set_vendor(gpu.vendor());
    load.set_index(gpu.index());
    load.set_busy_percent(found->busy_percent.value_or(0));
    load.set_busy_unknown(!found->busy_percent);
    if (found->memory_total > 0) load.set_memory_used_mib(mebibytes(found->memory_used));
    if (found->knows_processes) load.set_processes(static_cast<int>(found->processes.size()));
  }
  return loads;
}

}  // namespace muster::agent
