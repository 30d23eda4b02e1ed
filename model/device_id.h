// Names of a host's GPUs that are valid on the whole host, whatever masks are set, and comparisons of such names. Pure.
//
// NVIDIA's GPUs and their parts (MIG) are named by UUID; a GPU without one is "nvidia:3". AMD's GPUs are "amd:3".
// Intel's are "intel:3", and a tile is "intel:3.1". A number that only CUDA understands is "cuda:3".
#pragma once

#include <string>
#include <string_view>

#include "model/gpu_mask.h"
#include "model/node_shape.h"

namespace muster::model {

std::string device_id(GpuVendor vendor, const VisibleGpu& device);

// Returns the name that users know: "GPU 3", "AMD GPU 0". A part (MIG) is named by its UUID: "MIG-… of GPU 3".
std::string gpu_text(GpuVendor vendor, int index, const std::string& part = {});

// Returns true if both names are equal, or if one is a whole GPU and the other is one of its tiles.
bool is_same_device(std::string_view id, std::string_view other);

// Returns true if both names may mean the same device. A CUDA number may be any of NVIDIA's GPUs. A GPU without a known
// UUID, or with unknown parts, may have any unknown name.
bool may_be_same_device(const NodeShape& node, std::string_view id, std::string_view other);

}  // namespace muster::model
