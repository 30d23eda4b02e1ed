// Python stacks that a process writes by itself when it gets a signal. The program has called
// muster.enable_stack_dumps(), which registers Python's faulthandler (python/muster/stack_dumps.py). For hosts that
// forbid to read the memory of the process.
//
// Format: the file stack-PID in the session's directory begins with a line "muster stack 1 SIGNAL START_TIME". Each
// stack that faulthandler writes follows it. The file comes from the program, so nothing in it is trusted.
//
// Thread: any. Parsers are pure. ask_stack_dump() blocks until the deadline at most.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/stacks/python_stack.h"
#include "base/status.h"

namespace muster::agent::inline evidence {

struct StackDumpHeader {
  int signal = 0;                // a real-time signal
  std::uint64_t start_time = 0;  // of the process, as ProcessInfo::start_time
};

// `line` has no end of line. INVALID_ARGUMENT: it is no header, or names another signal than a real-time one.
base::Result<StackDumpHeader> parse_stack_dump_header(std::string_view line);

// Returns the frames of the first stack in faulthandler's text, innermost first. Empty if there is none.
std::vector<PythonFrame> parse_stack_dump(std::string_view text);

// Returns the stack of the process's main thread.
// NOT_FOUND: the program has not called muster.enable_stack_dumps(). DEADLINE_EXCEEDED: it writes nothing. Other
// errors: the file is not what it should be, or another process reads it now.
base::Result<std::vector<PythonFrame>> ask_stack_dump(const std::string& session_dir, const ProcessInfo& process,
                                                      std::chrono::steady_clock::time_point deadline);

}  // namespace muster::agent::evidence
