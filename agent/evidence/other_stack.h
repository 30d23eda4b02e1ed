// The Python stack of a process whose memory the agent may not read. It asks the program by faulthandler, if it allows
// that, and py-spy, if the rank's PATH has it.
//
// Thread: any. Blocks until the deadline at most, and /proc/PID/environ is read.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/stacks/python_stack.h"

namespace muster::agent::inline evidence {

inline constexpr std::chrono::milliseconds kOtherStackLimit{1'000};

struct OtherStack {
  std::string source{};               // "faulthandler" or "py-spy"; empty if none has answered
  std::vector<PythonFrame> frames{};  // of the main thread, innermost first
  std::string problem{};              // why none has answered
};

// `session_dir` may be empty.
OtherStack read_other_stack(const std::string& session_dir, const ProcessInfo& process,
                            std::chrono::steady_clock::time_point deadline);

// True if `stacks` has no thread because the memory could not be read.
bool needs_other_stack(const PythonStacks& stacks);

// Puts the stack into `stacks`, as that of the main thread. Without one, it completes the problem.
void add_other_stack(const OtherStack& other, pid_t pid, PythonStacks& stacks);

}  // namespace muster::agent::evidence
