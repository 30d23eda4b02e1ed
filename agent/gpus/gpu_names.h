// Names for the host's GPUs and the parts of divided ones (MIG). A name stays the same from the agent's start to its
// end. It does not change if a report lacks a GPU, or lists GPUs in a new order after a driver was loaded again.
// The number in a name counts by PCI bus, as hvdrun and CUDA's mask do. It is not the position in a report.
// Pure.
#pragma once

#include <compare>
#include <string>
#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

struct GpuName {
  model::GpuVendor vendor = model::GpuVendor::kNvidia;
  int index = 0;  // GpuShape::index; -1 if the GPU was not there at the agent's start
  // For a part, the part's UUID. For a GPU without an index, its UUID or PCI address. Otherwise empty.
  std::string uuid{};

  auto operator<=>(const GpuName&) const = default;
};

// `known` are the host's GPUs at the agent's start. If it has none of this vendor, for example because the library
// failed at the start, `place` becomes the index. `place` is the GPU's position in the report.
GpuName name_of(const gpus::NvidiaGpu& gpu, std::size_t place, const std::vector<model::GpuShape>& known);
// `seen` are the report's GPUs; `gpu` is one of them.
GpuName name_of(const gpus::FileGpu& gpu, const std::vector<gpus::FileGpu>& seen,
                const std::vector<model::GpuShape>& known);
GpuName part_of(const GpuName& gpu, const std::string& uuid);

// Returns text for a user: "GPU 3", "AMD GPU 0", "MIG-… of GPU 3", "GPU-…".
std::string text_of(const GpuName& name);

}  // namespace muster::agent::gpus
