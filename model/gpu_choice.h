// Chooses the GPUs of a host that its ranks can get: by vendor, masks and --gpu-order. Also checks that they are
// enough. model/gpu_binding.h deals them to ranks. Pure.
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
  std::string hidden_by{};         // the reason if the host has GPUs but the list is empty; a part of a sentence
  bool is_meant = false;           // true if the list is empty because a mask requests no GPU ("", "-1")
  std::string remark{};            // a remark for the user about a list that is not empty
};

// Returns the masks for the job's ranks on the node. The job's own masks take precedence over those of the host's
// login.
GpuMasks masks_in_force(const NodeShape& node, const GpuMasks& job_masks);

// Returns all devices that can be dealt. If a host has GPUs of NVIDIA and AMD, NVIDIA's are used, because AMD's are
// then probably part of the processor. Intel's are used with `one` if there are no others, and with `tile`. Do not call
// it for kNone. INVALID_ARGUMENT as from bind_node(). The result refers to `node`.
base::Result<GpuChoice> choose_gpus(const NodeShape& node, const Pinning& pinning, const GpuMasks& masks);

// Returns the devices of `all` that are dealt to `ranks` ranks, if they are enough. Empty if there are none. CUDA shows
// a process one part of a divided GPU, and no whole GPU beside it. So whole GPUs are dealt alone if they are enough or
// if there is nothing else.
base::Result<GpuChoice> fit_gpus(const GpuChoice& all, std::size_t ranks, const Pinning& pinning);

// Returns the number of devices for each rank.
std::size_t gpus_for_each(const Pinning& pinning);

bool has_parts(const std::vector<VisibleGpu>& devices);

}  // namespace muster::model
