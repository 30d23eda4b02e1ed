// The user-space stacks of all threads of a process, by ptrace and the unwind tables in its own files: the process
// needs no debug symbols and the host no tools. Every thread is stopped for some milliseconds; a system call that the
// kernel does not restart (epoll_wait) may return EINTR to the program, as with any debugger.
//
// Blocks; may block for ever on a process that hangs in the kernel: call it in a process of its own (stack_report.h).
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
  std::string function;  // demangled; empty: not known
  std::string module;    // path; empty: nothing is mapped there

  bool operator==(const UserFrame&) const = default;
};

struct UserStack {
  std::vector<UserFrame> frames;  // innermost first, at most kMaxUserFrames
  std::string problem;            // why it ends early; empty: it does not
};

inline constexpr std::size_t kMaxUserFrames = 128;

// By thread id. PERMISSION_DENIED: another user's process, or the kernel's ptrace_scope forbids it.
base::Result<std::map<pid_t, UserStack>> read_user_stacks(pid_t pid);

}  // namespace muster::agent::stacks
