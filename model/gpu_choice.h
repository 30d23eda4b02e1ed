// Which of a host's GPUs its ranks can be given: the vendor, what masks leave, the order that --gpu-order says, and
// whether it is enough. Who gets which is model/gpu_binding.h's. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/gpu_mask.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

struct GpuChoice {
  GpuVendor vendor = GpuVendor::kNvidia;
  std::vector<VisibleGpu> list{};  // in the order of --gpu-order
  std::string hidden_by{};         // where there are GPUs, and the list is empty: why; half a sentence
  bool is_meant = false;           // then: by a mask that asks for just that ("", "-1")
  std::string remark{};            // what the user should know of a list that is not empty
};

// What holds for the job's ranks on the node: the job's own masks go before those of the login there.
GpuMasks masks_in_force(const NodeShape& node, const GpuMasks& job_masks);

// All that can be dealt. NVIDIA's GPUs go before AMD's where a host has both: the latter is then rather a processor's
// own; Intel's are for `one`, where there are no others, and for `tile`. Not for kNone.
// INVALID_ARGUMENT: as bind_node says it. Borrows from `node`.
base::Result<GpuChoice> choose_gpus(const NodeShape& node, const Pinning& pinning, const GpuMasks& masks);

// Of `all` what so many ranks are dealt, and enough of it; empty: there is none to deal. CUDA shows a process one part
// of a divided GPU, and no whole one beside it: whole ones alone, where they are enough or only they can be had.
base::Result<GpuChoice> fit_gpus(const GpuChoice& all, std::size_t ranks, const Pinning& pinning);

// Devices for each rank.
std::size_t gpus_for_each(const Pinning& pinning);

bool has_parts(const std::vector<VisibleGpu>& devices);

}  // namespace muster::model
