// Which of the host's GPUs a job's ranks see, by the masks in their environment. Pure.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "agent/gpus/gpu_names.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

class GivenGpus {
 public:
  // Those of one more rank. `known`: as the agent knew them at its start, what is divided by its parts. Of a vendor
  // whose mask is not set none; where nobody can say which a mask means, all of its vendor's.
  void add(const std::vector<model::GpuShape>& known, const model::GpuMasks& masks);
  void add(const GivenGpus& more);

  bool is_any() const { return !whole_.empty() || !gpus_.empty(); }
  // A GPU, a part of one that was given undivided, or a divided GPU of which a part was given.
  bool has(const GpuName& name) const;
  bool has_any_of(model::GpuVendor vendor) const;

 private:
  std::set<model::GpuVendor> whole_;  // all of it
  std::set<GpuName> gpus_;
};

// Of "NAME=VALUE".
model::GpuMasks masks_in(const std::vector<std::string>& environment);

}  // namespace muster::agent::gpus
