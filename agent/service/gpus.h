// The GPUs of a host, from what the kernel and the drivers show in files: the agent is static and loads no vendor's
// library. NVIDIA: /proc/driver/nvidia/gpus; AMD: the topology of the KFD driver; both: the PCI device in sysfs.
#pragma once

#include <string>
#include <vector>

#include "model/node_shape.h"

namespace muster::agent {

// `node`: whose numbers of NUMA nodes count. `root` goes before all paths. What cannot be read is left out: a GPU, or
// what is not known of it.
std::vector<model::GpuShape> find_gpus(const model::NodeShape& node, const std::string& root = "");

}  // namespace muster::agent
