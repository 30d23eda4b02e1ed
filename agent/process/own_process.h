// What agent and warden do to themselves and share in cleaning up.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/process/warden_events.h"
#include "base/status.h"

namespace muster::agent::inline process {

// Subreaper, not dumpable (so no core, and no other process of the user reads our keys).
base::Status become_supervisor();

// /dev/null as 0, 1 and 2; everything else but `kept` is closed. The kept ones must be above 2.
base::Status keep_only_descriptors(const std::vector<int>& kept);

// Our pid as seen by the /proc that `proc_fd` is open on.
pid_t own_pid_in(int proc_fd);

// Kills marked processes that have escaped from all containment, and adds them to `empty`. Spared: this process, the
// agent, and their ancestors.
void audit(const std::string& job_id, const std::string& session_path, pid_t agent_pid, JobEmpty& empty);

}  // namespace muster::agent::process
