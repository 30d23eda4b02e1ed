// Finds the ranks that failed with the same Python exception as the root cause. Pure.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "model/exit_report.h"

namespace muster::launcherd::inline run {

// Returns the ranks in ascending order, without the root cause's. `root` is an index into `ends`, or -1. `tails` holds
// the last lines of stderr, by rank.
std::vector<int> alike_ranks(const std::vector<model::RankEnd>& ends, int root,
                             const std::map<int, std::string>& tails);

}  // namespace muster::launcherd::run
