// Finds the process that does the work of a rank. Many ranks are started by a shell or another wrapper, which only
// waits for its child.
//
// Thread: any; pure.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"

namespace muster::agent::inline proc {

// Returns the process at the end of the chain that begins with the process `root`. A process is passed over if it
// sleeps, has exactly one living child, and only waits for it. A Python program is passed over only if its child is
// one, too. `channel` returns the kernel function in which a process waits, empty if unknown. Returns nullptr if
// `table` has no living process `root`.
const ProcessInfo* working_process(const std::vector<ProcessInfo>& table, pid_t root,
                                   const std::function<std::string(pid_t)>& channel);

}  // namespace muster::agent::proc
