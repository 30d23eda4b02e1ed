// What a host looks like, for --dry-run, which asks no agent: as the user describes it, or as this host's kernel does.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/node_shape.h"

namespace muster::cli::inline options {

// SOCKETSxCORES[xTHREADS][+GPUS]: "2x32x2+4" is two sockets of 32 cores of two threads, and four GPUs ("+6x2": six of
// Intel's, of two tiles each). Cores count per
// socket; CPU numbers are dealt as Linux does it, first threads of all cores first. GPUs are spread over the sockets in
// their order. Pure.
base::Result<model::NodeShape> parse_assumed_node(std::string_view text);

// Whether this is meant as a shape: it begins with a number, and the name of a template does not.
bool is_node_shape(std::string_view text);

// The cores among `cpus`, by `root` (/sys/devices/system/cpu): packages, in them NUMA nodes, in them cores, each in the
// order of their lowest CPU. A CPU of which the kernel says nothing is a core of its own.
model::NodeShape read_node_shape(const std::string& root, const std::vector<int>& cpus);

}  // namespace muster::cli::options
