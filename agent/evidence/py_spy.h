// Python stacks by py-spy, a program that users may have installed. For hosts on which the agent may not read the
// memory of a process, but py-spy may, because it has the capability.
//
// Thread: any. parse_py_spy() is pure. ask_py_spy() blocks until the deadline at most.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "agent/stacks/python_stack.h"
#include "base/status.h"

namespace muster::agent::inline evidence {

// Returns the program with this name in the folders of `path`, which is a PATH. Empty if there is none. Folders that
// are not absolute are left out.
std::string find_in_path(std::string_view name, std::string_view path);

// Returns the frames of the main thread in the output of `py-spy dump --json`, innermost first.
// INVALID_ARGUMENT: it is no such output, or has no main thread.
base::Result<std::vector<PythonFrame>> parse_py_spy(std::string_view json, pid_t pid);

// Runs `PROGRAM dump --json --nonblocking --pid PID`.
base::Result<std::vector<PythonFrame>> ask_py_spy(const std::string& program, pid_t pid,
                                                  std::chrono::steady_clock::time_point deadline);

}  // namespace muster::agent::evidence
