// The binder decides which CPUs each rank of a host may use, by every rule of Pinning. Pure.
#pragma once

#include <vector>

#include "base/status.h"
#include "model/node_shape.h"
#include "model/pinning.h"

namespace muster::model {

// All CPUs of the cores that have one of these, sorted.
std::vector<int> whole_cores(const NodeShape& node, const std::vector<int>& sorted_cpus);

// The node without its reserved cores, and of each core only the threads that are used.
NodeShape usable_node(const NodeShape& node, const Pinning& pinning);

// One entry a local rank. share, core, numa and socket as bind_ranks() has them, over the usable cores; who is not
// bound by them is bound to all of these, once the user has left some out.
//
// depth: `depth` hardware threads each, in the order of the cores, and never of two sockets: what is left of a socket
// when the next rank does not fit stays free. With `hyperthreads` a rank has so many threads of each of its cores, as
// under `aprun -d -j`; without, the first threads of all cores are dealt, then the second ones, as PALS's `--depth`.
// list: the list of its local rank, as it is.
//
// INVALID_ARGUMENT, one sentence without the host's name: the ranks do not fit, a list is missing or names a CPU that
// is not usable, all cores are reserved. A node without cores is one of which nothing is known: nobody is bound but by
// list.
base::Result<std::vector<RankBinding>> bind_cpus(const NodeShape& node, int local_size, const Pinning& pinning);

}  // namespace muster::model
