// Reads the user-space stacks of all threads of a process, by ptrace and the unwind tables in the process's own
// files. The process needs no debug symbols, and the host needs no tools.
// Each thread is stopped for some milliseconds. A system call that the kernel does not restart (epoll_wait) may
// return EINTR to the program, as with any debugger.
//
// Calls block, and may block for ever if the process hangs in the kernel. So call it in a process of its own
// (stack_report.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace muster::agent::inline stacks {

struct UserFrame {
  std::uint64_t address = 0;
  std::string function;  // demangled; empty if not known
  std::string module;    // path; empty if nothing is mapped there

  bool operator==(const UserFrame&) const = default;
};

struct UserStack {
  std::vector<UserFrame> frames;  // innermost first, at most kMaxUserFrames
  std::string problem;            // why the stack ends early; empty if it does not
};

inline constexpr std::size_t kMaxUserFrames = 128;

// Returns the stacks by thread id. PERMISSION_DENIED: the process is another user's, or the kernel's ptrace_scope
// forbids it.
base::Result<std::map<pid_t, UserStack>> read_user_stacks(pid_t pid);

// Returns the demangled name of the function at this address of the process, which is not stopped. Empty if unknown.
std::string function_at(pid_t pid, std::uint64_t address);

}  // namespace muster::agent::stacks
