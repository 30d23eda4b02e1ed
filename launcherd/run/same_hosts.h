// Merges entries of a job that turn out to be one host: their ranks and their shares. Pure.
#pragma once

#include <optional>
#include <vector>

#include "model/placement.h"

namespace muster::launcherd::inline run {

// Moves the ranks of each entry i to `first_of[i]`, the first entry of the same host. The result has no shares yet.
model::Placement merged(const model::Placement& placement, const std::vector<int>& first_of);

// Joins the shares of two entries that are one host. launcherd decided both shares as if for two hosts, so they may
// overlap. If they do, returns nullopt, and the ranks are then bound anew to the whole host.
std::optional<model::HostShare> joined(std::optional<model::HostShare> share,
                                       const std::optional<model::HostShare>& other);

}  // namespace muster::launcherd::run
