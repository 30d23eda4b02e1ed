// The set of the host's GPUs that a job's ranks see, computed from the masks in their environment. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/gpus/gpu_names.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

class AssignedGpus {
 public:
  // Adds the GPUs that the masks of one more rank select. `known` lists the host's GPUs at the agent's start, and the
  // parts of divided GPUs.
  // A mask that is not set adds no GPU. If a mask cannot be resolved, all GPUs of its vendor are added.
  void add(const std::vector<model::GpuShape>& known, const model::GpuMasks& masks);
  void add(const AssignedGpus& more);

  bool is_any() const { return !whole_.empty() || !gpus_.empty(); }
  // Returns true for a GPU of the set, and for a part of a GPU that is in the set as a whole. Also true for a divided
  // GPU of which a part is in the set.
  bool has(const GpuName& name) const;
  bool has_any_of(model::GpuVendor vendor) const;

 private:
  std::set<model::GpuVendor> whole_;  // vendors of which all GPUs are in the set
  std::set<GpuName> gpus_;
};

// Returns the masks in a list of NAME=VALUE entries.
model::GpuMasks masks_in(const std::vector<std::string>& environment);

}  // namespace muster::agent::gpus
