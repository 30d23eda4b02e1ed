// The GPUs of a host that its user has left visible, by CUDA_VISIBLE_DEVICES and similar masks. Masks are read as CUDA,
// ROCr and HIP read them. Pure.
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
  std::string name;  // UUID, index, or the name of a MIG device
  const GpuShape* gpu =
      nullptr;                // of the node; nullptr: a MIG device or a number of CUDA's own, only the name is known
  std::optional<int> tile{};  // of Intel's (model/intel_gpus.h); nullopt: all of it
};

// How a mask's numbers count: as GpuShape::index does, or in a way that only the runtime knows.
enum class MaskNumbers { kByBus, kUnknown };

// CUDA puts the fastest GPU first unless CUDA_DEVICE_ORDER says otherwise; among equal ones that is the bus's order.
MaskNumbers cuda_numbers(const NodeShape& node, const GpuMasks& masks);

// Those of `vendor` that `mask` leaves (nullopt: all), in its order. As their runtimes do: a word is an index or the
// beginning of one UUID; the first that is neither ends the list; a GPU named twice empties it. Names are UUIDs, or
// indices where not all UUIDs are known, or several GPUs have the same (parts of AMD's). A GPU that is divided stands
// for its parts. Numbers that are not known to us keep their name and stand for no GPU. Empty as well where a mask is
// hard to read for want of UUIDs.
// Borrows from `node`.
std::vector<VisibleGpu> visible_gpus(const NodeShape& node, GpuVendor vendor, const std::optional<std::string>& mask,
                                     MaskNumbers numbers = MaskNumbers::kByBus);

// Those of AMD's that are left by ROCR_VISIBLE_DEVICES and, counted within them, by HIP's mask. That is
// HIP_VISIBLE_DEVICES, else CUDA_VISIBLE_DEVICES: an index or the beginning of a UUID, of which the first that is
// neither ends the list and repeated ones count once.
std::vector<VisibleGpu> visible_amd_gpus(const NodeShape& node, const GpuMasks& masks);

}  // namespace muster::model
