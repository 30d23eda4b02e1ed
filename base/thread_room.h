// Reads whether the limits of this process leave room for more threads, without starting any.
#pragma once

#include <string>

namespace muster::base {

// Returns true if all limits leave room for `threads` more threads: that of the user's processes, those of the kernel,
// and those of the process's cgroups. Returns false if one does not, or if one cannot be read. Then only starting
// threads can tell. `root`: the folder that holds proc and sys, for tests.
// Limits outside the process's cgroup namespace are not seen.
bool limits_leave_room(int threads, const std::string& root = "");

}  // namespace muster::base
