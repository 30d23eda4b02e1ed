// Launch step: resource limits of a rank. By default the soft limits of open files and of locked memory are raised to
// the hard ones; `--ulimit NAME=VALUE` sets any limit. Pure but for default_limits(), which asks the kernel.
#pragma once

#include <string_view>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"

namespace muster::agent {

// Soft NOFILE and MEMLOCK raised to this process's hard limits.
std::vector<RlimitSetting> default_limits();

// "nofile=4096", "core=unlimited", "stack=8388608:unlimited" (soft:hard; one value sets both). Values as setrlimit
// takes them: bytes, numbers, seconds. INVALID_ARGUMENT names the nearest limit.
base::Result<RlimitSetting> parse_ulimit(std::string_view text);

// `base` with each of `over` replacing the same resource.
std::vector<RlimitSetting> merge_limits(std::vector<RlimitSetting> base, const std::vector<RlimitSetting>& over);

// "nofile"; "resource 99" for a number without a name.
std::string limit_name(int resource);

}  // namespace muster::agent
