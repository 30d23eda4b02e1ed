// What the agent calls the host's GPUs, and the parts of divided ones (MIG), from its start to its end: a report that
// lacks one, or lists them anew after a driver was loaded again, moves no name. The number is the one by which hvdrun
// and CUDA's mask (by PCI bus) count, not the place in a report. Pure.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

struct GpuName {
  model::GpuVendor vendor = model::GpuVendor::kNvidia;
  int index = 0;       // GpuShape::index; -1: it was not there at the agent's start
  std::string uuid{};  // of a part; or, without an index, the GPU's own, or its PCI address

  auto operator<=>(const GpuName&) const = default;
};

// `known`: the host's GPUs at the agent's start. Where that has none of the vendor's, as of a library that failed then,
// `place`, that in the report, is the index.
GpuName name_of(const gpus::NvidiaGpu& gpu, std::size_t place, const std::vector<model::GpuShape>& known);
// `seen`: the report's, `gpu` among them.
GpuName name_of(const gpus::FileGpu& gpu, const std::vector<gpus::FileGpu>& seen,
                const std::vector<model::GpuShape>& known);
GpuName part_of(const GpuName& gpu, const std::string& uuid);

// "GPU 3", "AMD GPU 0", "MIG-… of GPU 3", "GPU-…".
std::string text_of(const GpuName& name);

}  // namespace muster::agent::gpus
