// Hostfiles on disk. Reads a file at once and leaves its grammar to model/host_spec.h; no name look-ups, no state.
// Blocks for as long as the file system does; any thread.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline hosts {

// More than kMaxHosts long lines: a larger file is not a list of hosts.
inline constexpr std::size_t kMaxHostfileBytes = 16u << 20;

// The error names the file, and the line and column where there is one. `path` may be a pipe (--hostfile <(scontrol
// …)).
base::Result<std::vector<model::HostSpec>> read_hostfile(const std::string& path);

}  // namespace muster::launcherd::hosts
