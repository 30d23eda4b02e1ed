// The work of a benchmark in a process of its own, so that nothing of it is left however it ends: its own processes are
// waited for and its directory is removed after SIGINT, SIGTERM and SIGHUP as well, and after a crash.
#pragma once

#include <functional>
#include <string>

namespace muster::bench {

// Calls `work` with a new directory in /tmp, named after `name`, and returns its exit code; 128 + the signal when one
// has ended it. Called before any thread is started. Processes that `work` starts must end with it (PR_SET_PDEATHSIG).
int run_guarded(const std::string& name, const std::function<int(const std::string& directory)>& work);

}  // namespace muster::bench
