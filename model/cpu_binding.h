// The binder decides which CPUs each rank of a host may use, by every rule of Pinning. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

// Returns all CPUs of the cores that have one of `sorted_cpus`, sorted.
std::vector<int> whole_cores(const NodeShape& node, const std::vector<int>& sorted_cpus);

// Returns the node without its reserved cores, and with only those threads of each core that are used.
NodeShape usable_node(const NodeShape& node, const Pinning& pinning);

// Returns one entry for each local rank.
//
// share, core, numa, socket: as in bind_ranks(), over the usable cores. If the user has reserved cores, ranks that
// these rules do not bind are bound to all usable cores.
//
// depth: each rank gets `depth` hardware threads, in the order of the cores, and never of two sockets. If the next rank
// does not fit, the rest of a socket stays free. With `hyperthreads`, a rank has that many threads of each of its
// cores, as with `aprun -d -j`. Without it, the first threads of all cores are dealt, then the second ones, as with
// PALS's `--depth`.
//
// list: each rank gets the CPU list for its local rank, unchanged.
//
// INVALID_ARGUMENT, one sentence without the host's name: the ranks do not fit, a list is missing or names an unusable
// CPU, or all cores are reserved. If the node has no cores, nothing is known about it, and only `list` binds.
base::Result<std::vector<RankBinding>> bind_cpus(const NodeShape& node, int local_size, const Pinning& pinning);

}  // namespace muster::model
