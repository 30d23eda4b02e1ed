// Launch step: resource limits of a rank. By default the soft limits of open files and of locked memory are raised to
// the hard ones; `--ulimit NAME=VALUE` (model/ulimit.h) sets any limit. Pure but for default_limits(), which asks the
// kernel.
#pragma once

#include <vector>

#include "agent/launch/spawn_request.h"
#include "model/ulimit.h"

namespace muster::agent::inline launch {

// Soft NOFILE and MEMLOCK raised to this process's hard limits.
std::vector<RlimitSetting> default_limits();

// `base` with each of `over` replacing the same resource.
std::vector<RlimitSetting> merge_limits(std::vector<RlimitSetting> base, const std::vector<model::Ulimit>& over);

}  // namespace muster::agent::launch
