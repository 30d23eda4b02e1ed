// The two processes that keep a session: its agent and its warden, as the session's notes name them. A keeper that was
// stopped (SIGSTOP) ends nothing when its job is over, and by the lock that it holds it keeps others from doing so.
// Blocks for as long as the file system does; end_stopped_sessions() for at most 10 s. Any thread.
#pragma once

#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "base/status.h"

namespace muster::agent::inline process {

// For whoever makes the session: both processes run.
base::Status note_keepers(const std::string& session_path, pid_t agent, pid_t warden);

// Continues the keepers of this session that are stopped. Returns them as they were. What they do then is theirs: a
// warden whose lease is over ends its job.
std::vector<ProcessInfo> continue_stopped_keepers(const std::string& session_path);

// Continues the stopped keepers of every session below `root` whose lease is over, and waits until they have ended.
// `root` as SessionDir::create has it.
void end_stopped_sessions(const std::string& root);

}  // namespace muster::agent::process
