// Launch step: resource limits of a rank. By default the soft limits of open files and of locked memory are raised to
// the hard ones. `--ulimit NAME=VALUE` (model/ulimit.h) sets any limit.
// Pure, except for default_limits(), which asks the kernel.
#pragma once

#include <vector>

#include "agent/launch/spawn_request.h"
#include "model/ulimit.h"

namespace muster::agent::inline launch {

// NOFILE and MEMLOCK with their soft limits raised to this process's hard limits.
std::vector<RlimitSetting> default_limits();

// Returns `base`, in which each limit of `over` replaces the one of the same resource.
std::vector<RlimitSetting> merge_limits(std::vector<RlimitSetting> base, const std::vector<model::Ulimit>& over);

}  // namespace muster::agent::launch
