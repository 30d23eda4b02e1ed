// Steps that agent and warden take in their own process, and the audit that both use to clean up.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "agent/process/warden_events.h"
#include "base/status.h"

namespace muster::agent::inline process {

// Becomes a subreaper that is not dumpable. So it leaves no core, and no other process of the user can read our keys.
base::Status become_supervisor();

// Puts /dev/null at 0, 1 and 2 and closes everything else but `kept`. Kept descriptors must be above 2.
base::Status keep_only_descriptors(const std::vector<int>& kept);

// Returns this process's pid in the /proc on which `proc_fd` is open.
pid_t own_pid_in(int proc_fd);

// Kills processes with the job's environment marker that have escaped from all containment, and adds them to `empty`.
// Spares this process, the agent, and their ancestors.
void audit(const std::string& job_id, const std::string& session_path, pid_t agent_pid, JobEmpty& empty);

}  // namespace muster::agent::process
