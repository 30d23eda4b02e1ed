// Intel's GPUs and their tiles, as Level Zero's ZE_AFFINITY_MASK names them. Pure.
//
// ZE_FLAT_DEVICE_HIERARCHY says what a device is. With COMPOSITE a device is a GPU, "1", and its tiles are "1.0" and
// "1.1". With FLAT, the driver's default, and with COMBINED a device is a tile. The numbers then continue from GPU to
// GPU: with two tiles each, "2" and "3" belong to the second GPU.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/gpu_mask.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

// False: there is a mask, and its numbers are of Level Zero's own order, which is not documented.
bool are_numbers_of_bus(const GpuMasks& masks);

// What a rank can be given, in the order of the devices: tiles (kTile), or GPUs with all tiles that the mask leaves
// (kOne). `name` is what ZE_AFFINITY_MASK says for it. Without a mask: all of the node; empty where it has none.
// INVALID_ARGUMENT: the mask or the hierarchy cannot be read, or names what is not there; its numbers are of Level
// Zero's own order, and the GPUs differ. (Among equal ones that is taken for the bus's.) Borrows from `node`.
base::Result<std::vector<VisibleGpu>> intel_devices(const NodeShape& node, GpuBind gpu_bind, const GpuMasks& masks);

// The node with the Intel GPUs that the user has described, if its kernel shows none. Their place is not known.
NodeShape with_described_gpus(const NodeShape& node, const Pinning& pinning);

}  // namespace muster::model
