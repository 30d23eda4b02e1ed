// The places of all ranks of a generation, as each agent writes them for its ranks (MUSTER_RANK_TABLE). Pure.
#pragma once

#include <functional>
#include <string>

#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// `address_of` gets the index of a host of the placement, and returns the address at which other hosts reach it.
// `cpus_of` gets a rank, and returns the number of CPUs that it may use; 0 if it is not bound or not known.
v1::RankTable rank_table_of(const model::Placement& placement,
                            const std::function<std::string(std::size_t)>& address_of,
                            const std::function<int(int rank)>& cpus_of);

}  // namespace muster::launcherd::plan
