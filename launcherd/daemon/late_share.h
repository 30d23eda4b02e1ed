// What is decided of a job's share of a host when the host's agent is up, later than its placement. Pure.
#pragma once

#include <optional>
#include <span>

#include "launcherd/placement/host_share.h"

namespace muster::launcherd {

// What ranks have that were started as if the host was all theirs: nothing is decided by it, it is counted. nullopt:
// they could not be bound there as it is now.
std::optional<model::HostShare> share_that_runs(const ShareWish& wish, const model::NodeShape& node, int slots,
                                                std::span<const model::RankPlace* const> places);

// Whether the ranks can be started with it on the host as it is now.
bool is_there_still(const model::HostShare& share, const ShareWish& wish, const model::NodeShape& node,
                    std::span<const model::RankPlace* const> places);

}  // namespace muster::launcherd
