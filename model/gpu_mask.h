// Which GPUs of a host its user has left visible (CUDA_VISIBLE_DEVICES and its kin), read as CUDA and ROCr read them.
// Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/node_shape.h"

namespace muster::model {

// What those of `variables` that are masks say; the others of `masks` stay as they are.
void set_gpu_masks(const std::vector<std::pair<std::string, std::string>>& variables, GpuMasks& masks);
std::vector<std::pair<std::string, std::string>> gpu_mask_variables(const GpuMasks& masks);  // the other way round

bool is_mig_name(std::string_view name);  // a part of a GPU that NVIDIA's driver has divided

// A GPU, or a part of one, as a mask names it.
struct VisibleGpu {
  std::string name;               // UUID, index, or the name of a MIG device
  const GpuShape* gpu = nullptr;  // of the node; nullptr: a MIG device, of which only the name is known
  std::optional<int> tile{};      // of Intel's (model/intel_gpus.h); nullopt: all of it
};

// Those of `vendor` that `mask` leaves (nullopt: all), in its order. As their runtimes do: a word is an index or the
// beginning of one UUID; the first that is neither ends the list; a GPU named twice empties it. Names are UUIDs, or
// indices where the kernel does not know all UUIDs. A GPU that is divided stands for its parts. Empty as well where a
// mask is hard to read for want of UUIDs.
// Borrows from `node`.
std::vector<VisibleGpu> visible_gpus(const NodeShape& node, GpuVendor vendor, const std::optional<std::string>& mask);

}  // namespace muster::model
