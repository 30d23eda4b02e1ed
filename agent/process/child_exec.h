// The child's side of a spawn: from clone() to execve(), by a plan in which everything has been decided.
//
// It runs in the warden's memory on a stack of its own while the warden waits (vfork semantics), so it may only make
// raw system calls and write to its plan. Failure is left in the plan as (step, errno).
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include <cstddef>

namespace muster::agent::inline process {

enum class ChildStep : int {
  kNone,
  kParent,
  kSession,
  kCgroup,
  kWorkdir,
  kAffinity,
  kStdio,
  kTerminal,
  kLimits,
  kExec
};

const char* child_step_name(ChildStep step);

struct ChildLimit {
  int resource = 0;
  struct rlimit64 value {};
};

struct ChildPlan {
  const char* const* candidates = nullptr;  // paths for execve, in order, null at the end
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  const char* workdir = nullptr;  // null: stay
  const unsigned long* cpu_mask = nullptr;
  std::size_t cpu_mask_bytes = 0;  // 0: untouched
  const ChildLimit* limits = nullptr;
  std::size_t limit_count = 0;
  mode_t umask = 022;
  int stdin_fd = -1;  // -1: the warden's own descriptor 0, /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;
  int pmi_fd = -1;  // becomes pmi_target; -1: none
  int pmi_target = -1;
  bool is_terminal = false;  // stdin_fd is one and becomes the controlling terminal
  int cgroup_procs_fd = -1;  // -1: the clone put it there already, or there is no cgroup
  int note_fd = -1;          // appended to, before exec: "<pid><note_tail>"; -1: no note
  const char* note_tail = nullptr;
  pid_t parent = 0;  // the warden, as getppid() will tell
  pid_t tracer = 0;  // the agent: what it starts may read the rank's stacks (Yama's ptrace_scope 1); 0: none

  // Written by the child when it fails, read by the warden after the clone has returned.
  ChildStep failed_step = ChildStep::kNone;
  int failed_errno = 0;
  std::size_t failed_index = 0;  // which limit, which candidate
};

// Signature of clone(2)'s function. Never returns.
[[noreturn]] int child_exec(void* plan);

}  // namespace muster::agent::process
