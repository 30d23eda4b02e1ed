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

// Returns false if a mask is set whose numbers are in Level Zero's own order, which is not documented.
bool are_numbers_of_bus(const GpuMasks& masks);

// Returns the devices that a rank can get, in the order of the devices. With kTile these are tiles, with kOne GPUs with
// all tiles that the mask leaves. `name` is the entry for ZE_AFFINITY_MASK. Without a mask the result has all devices
// of the node; it is empty if the node has none. INVALID_ARGUMENT if the mask or hierarchy is invalid or names a
// missing device. Also if the numbers are in Level Zero's own order and the GPUs differ. (Equal GPUs are taken in the
// bus's order.) The result refers to `node`.
base::Result<std::vector<VisibleGpu>> intel_devices(const NodeShape& node, GpuBind gpu_bind, const GpuMasks& masks);

// Returns the node with the Intel GPUs that the user described, if its kernel shows none. Their place is unknown.
NodeShape with_described_gpus(const NodeShape& node, const Pinning& pinning);

}  // namespace muster::model
