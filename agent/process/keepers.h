// The two processes that keep a session: its agent and its warden, as the session's notes name them.
// A keeper that was stopped (SIGSTOP) does not end its processes when its job is over. It also holds a lock that
// keeps a sweep from ending them.
//
// Thread: any. Calls block for as long as the file system does; end_stopped_sessions() blocks for at most 10 s.
#pragma once

#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "base/status.h"

namespace muster::agent::inline process {

// Writes the note. The maker of the session calls it while both processes run.
base::Status note_keepers(const std::string& session_path, pid_t agent, pid_t warden);

// Continues those keepers of this session that are stopped, and returns them as they were before. A continued warden
// whose lease is over ends its job.
std::vector<ProcessInfo> continue_stopped_keepers(const std::string& session_path);

// Continues the stopped keepers of every session below `root` whose lease is over, and waits until they have ended.
// `root` has the meaning that SessionDir::create gives it.
void end_stopped_sessions(const std::string& root);

}  // namespace muster::agent::process
