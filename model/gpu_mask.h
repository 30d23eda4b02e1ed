// Finds the GPUs of a host that remain visible under CUDA_VISIBLE_DEVICES and similar masks. Masks are read as CUDA,
// ROCr and HIP read them. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/node_shape.h"

namespace muster::model {

// Sets the masks that `variables` contains. Other members of `masks` stay unchanged.
void set_gpu_masks(const std::vector<std::pair<std::string, std::string>>& variables, GpuMasks& masks);
// Does the reverse of set_gpu_masks().
std::vector<std::pair<std::string, std::string>> gpu_mask_variables(const GpuMasks& masks);

bool is_mig_name(std::string_view name);  // true if it names a part of a GPU that NVIDIA's driver has divided

// A GPU or a part of one, as a mask names it.
struct VisibleGpu {
  std::string name;  // UUID, index, or the name of a MIG device
  // The GPU of the node. nullptr if only the name is known: for a MIG device, or for a number in CUDA's own order.
  const GpuShape* gpu = nullptr;
  std::optional<int> tile{};  // the tile of an Intel GPU (model/intel_gpus.h); nullopt means the whole GPU
};

// The meaning of a mask's numbers: GpuShape::index, or an order that only the runtime knows.
enum class MaskNumbers { kByBus, kUnknown };

// By default CUDA numbers the fastest GPU first, so the result is kUnknown. It is kByBus if CUDA_DEVICE_ORDER is
// PCI_BUS_ID, or if all GPUs are of one model.
MaskNumbers cuda_numbers(const NodeShape& node, const GpuMasks& masks);

// Returns the GPUs of `vendor` that `mask` leaves (nullopt: all), in its order. The rules are those of the runtimes. A
// word is an index or the beginning of one UUID. The first word that is neither ends the list. A GPU that is named
// twice empties the list.
// Names are UUIDs. They are indices if not all UUIDs are known or several GPUs have the same one (parts of AMD's). A
// divided GPU stands for its parts. A number that we do not know keeps its name and has no GPU. The list is also empty
// if unknown UUIDs make a mask unreadable. The result refers to `node`.
std::vector<VisibleGpu> visible_gpus(const NodeShape& node, GpuVendor vendor, const std::optional<std::string>& mask,
                                     MaskNumbers numbers = MaskNumbers::kByBus);

// Returns AMD's GPUs that ROCR_VISIBLE_DEVICES and HIP's mask leave. HIP's mask counts within ROCr's list. It is
// HIP_VISIBLE_DEVICES, or else CUDA_VISIBLE_DEVICES. A word is an index or the beginning of a UUID. The first word that
// is neither ends the list, and repeated ones count once.
std::vector<VisibleGpu> visible_amd_gpus(const NodeShape& node, const GpuMasks& masks);

}  // namespace muster::model
