// Sockets, NUMA nodes and cores of a host, from hwloc. Called once, before threads that matter.
#pragma once

#include "base/status.h"
#include "model/node_shape.h"

struct hwloc_topology;
struct hwloc_bitmap_s;

namespace muster::agent::inline host {

// The cores that this process may use (affinity and cgroup limits respected); no GPUs.
base::Result<model::NodeShape> read_node_shape();

// The cores of a loaded topology that have a hardware thread in `allowed`.
model::NodeShape node_shape_of(hwloc_topology* topology, const hwloc_bitmap_s* allowed);

}  // namespace muster::agent::host
