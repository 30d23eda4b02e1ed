// Reads sockets, NUMA nodes and cores of a host with hwloc. Call it once, before the agent starts threads.
#pragma once

#include "base/status.h"
#include "model/node_shape.h"

struct hwloc_topology;
struct hwloc_bitmap_s;

namespace muster::agent::inline host {

// Returns the cores that this process may use, within its affinity and cgroup limits. GPUs are not included.
base::Result<model::NodeShape> read_node_shape();

// Returns the cores of a loaded topology that have a hardware thread in `allowed`.
model::NodeShape node_shape_of(hwloc_topology* topology, const hwloc_bitmap_s* allowed);

}  // namespace muster::agent::host
