// Connects to this host's agent, under a launcher.
#pragma once

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::collectives::inline join {

// Connects to `agent.sock` in `directory` (MUSTER_SESSION_DIR). The directory must belong to our uid and be closed to
// other users. The listening process must have our uid, too, because both directions carry the job's secrets. Blocks
// only while the agent's backlog is full. Any thread may call.
// NOT_FOUND if the agent has left or serves no sessions. PERMISSION_DENIED if the directory or the process is not ours.
base::Result<base::UniqueFd> connect_to_agent(const std::string& directory);

}  // namespace muster::collectives::join
