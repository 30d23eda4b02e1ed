// Names of a host's GPUs that hold for the whole host, whatever masks are set, and whether two names mean the same
// device. Pure.
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

// What a user calls it: "GPU 3", "AMD GPU 0"; a part of it (MIG), by its UUID: "MIG-… of GPU 3".
std::string gpu_text(GpuVendor vendor, int index, const std::string& part = {});

// One of them is all of the GPU that the other one is a tile of, or they are the same.
bool is_same_device(std::string_view id, std::string_view other);

// Whether they may be the same on this host, as far as is known: a number of CUDA's own is any of NVIDIA's GPUs, and
// what has not told its UUID, or its parts, is anything that is called by one that is not known.
bool may_be_same_device(const NodeShape& node, std::string_view id, std::string_view other);

}  // namespace muster::model
