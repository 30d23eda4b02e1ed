// Reads a whole hostfile from disk. model/host_spec.h parses it. Resolves no names, keeps no state.
// Thread: any. The call blocks as long as the file system does.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

// kMaxHosts long lines need less than this. A larger file is not a list of hosts.
inline constexpr std::size_t kMaxHostfileBytes = 16u << 20;

// The error names the file, and the line and column if known. `path` may be a pipe: --hostfile <(scontrol …)
base::Result<std::vector<model::HostSpec>> read_hostfile(const std::string& path);

}  // namespace muster::launcherd::hosts
