// Reads the Python stacks of all threads of a process: function, file and line, from the process's memory.
//
// The process is not stopped, and nothing in it takes part. So a thread may run while it is read. A stack without a
// problem was read from a thread that slept meanwhile, or was found unchanged many times. Any other stack says so in
// its problem, and holds only the outer frames that stayed.
// CPython 3.8 to 3.14; python_layout.h says which of them were tested.
//
// Calls may block for ever if the process hangs in the kernel with its memory locked. So call read_python_stacks(pid)
// in a process of its own (stack_report.h).
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/stacks/python_layout.h"
#include "base/unique_fd.h"

namespace muster::agent::inline stacks {

inline constexpr std::size_t kMaxPythonFrames = 256;
inline constexpr std::size_t kMaxPythonText = 2u << 20;  // bytes of all names and paths of a process, about

struct PythonFrame {
  std::string function;  // qualified since CPython 3.11
  std::string file;
  int line = 0;  // 0 if not known

  bool operator==(const PythonFrame&) const = default;
};

struct PythonStack {
  pid_t tid = 0;                    // 0 if the thread of the kernel is not known
  std::vector<PythonFrame> frames;  // innermost first, at most kMaxPythonFrames; empty if it runs no Python code
  std::string problem;              // why frames are missing or inexact; empty if they are not
  bool has_moved = false;           // inner frames are missing, because they changed while they were read
};

struct PythonStacks {
  std::string version;  // empty if not known
  std::vector<PythonStack> threads;
  std::string problem;  // why threads are missing; empty if they are not
};

// Reads the stacks of an interpreter. `tids` maps the thread ids that the process sees to those that the host sees.
PythonStacks read_python_stacks(TargetMemory& memory, const PythonInterpreter& python,
                                const std::map<pid_t, pid_t>& tids);

// Reads the stacks of a process. `memory` is open on its /proc/PID/mem; if it is invalid, the file is opened here.
// nullopt if the process has no CPython, or has ended.
std::optional<PythonStacks> read_python_stacks(pid_t pid, base::UniqueFd memory = {});

}  // namespace muster::agent::stacks
