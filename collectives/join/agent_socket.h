// The way to this host's agent, under a launcher.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

// A connection to `agent.sock` in `directory` (MUSTER_SESSION_DIR), which must be a directory of our uid that is closed
// to others, as must be the process that listens there: what we tell it, and what it tells us, is the job's secret.
// Blocks only while the agent's backlog is full. NOT_FOUND: the agent has left, or serves no sessions.
// PERMISSION_DENIED: that is not ours. Any thread.
base::Result<base::UniqueFd> connect_to_agent(const std::string& directory);

}  // namespace muster::collectives::join
