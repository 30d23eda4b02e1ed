// Describes what a host looks like, for --dry-run, which asks no agent. The description comes from the user, or from
// this host's kernel.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/node_shape.h"

namespace muster::cli::inline options {

// Parses SOCKETSxCORES[xTHREADS][+GPUS]. "2x32x2+4" means two sockets with 32 cores each, two threads a core, and four
// GPUs. "+6x2" means six Intel GPUs with two tiles each.
// CORES counts the cores of one socket. CPUs are numbered as Linux does it: the first threads of all cores come first.
// GPUs are spread evenly over the sockets, in order. Pure.
base::Result<model::NodeShape> parse_assumed_node(std::string_view text);

// True if `text` begins with a digit and so is a shape. The name of a template never begins with a digit.
bool is_node_shape(std::string_view text);

// Reads the cores that have the CPUs in `cpus`. `root` is /sys/devices/system/cpu. The cores are sorted by package,
// then NUMA node, then lowest CPU. A CPU of which the kernel reports no core counts as a core of its own.
model::NodeShape read_node_shape(const std::string& root, const std::vector<int>& cpus);

}  // namespace muster::cli::options
