// The child's side of a spawn, from clone() to execve(). It follows a plan in which everything has been decided.
//
// Thread: it runs in the warden's memory on a stack of its own, while the warden waits (vfork semantics). It may only
// make raw system calls and write to its plan.
// Errors: the child leaves a failure in the plan, as step and errno.
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
  const char* const* candidates = nullptr;  // paths for execve, in this order; null ends the list
  char* const* argv = nullptr;
  char* const* envp = nullptr;
  const char* workdir = nullptr;  // null means that the directory stays
  const unsigned long* cpu_mask = nullptr;
  std::size_t cpu_mask_bytes = 0;  // 0 means that the affinity stays
  const ChildLimit* limits = nullptr;
  std::size_t limit_count = 0;
  mode_t umask = 022;
  int stdin_fd = -1;  // -1 means the warden's own descriptor 0, which is /dev/null
  int stdout_fd = -1;
  int stderr_fd = -1;
  int pmi_fd = -1;  // becomes pmi_target; -1 if there is none
  int pmi_target = -1;
  bool is_terminal = false;  // stdin_fd is a terminal, which becomes the controlling terminal
  // -1 if the clone has put the child into its cgroup, or if there is no cgroup.
  int cgroup_procs_fd = -1;
  // A file to which the child appends "<pid><note_tail>" before exec. -1 if there is none.
  int note_fd = -1;
  const char* note_tail = nullptr;
  pid_t parent = 0;  // the warden, as getppid() must return it
  // The agent's pid. The agent and its children may trace the rank to read its stacks, even if Yama's ptrace_scope is
  // 1. 0 if there is no tracer.
  pid_t tracer = 0;

  // The child writes these. The warden reads them after the clone has returned.
  std::size_t tried_index = 0;  // index of the candidate that ran, unless a step has failed
  ChildStep failed_step = ChildStep::kNone;
  int failed_errno = 0;
  std::size_t failed_index = 0;  // index of the limit or of the candidate that failed
};

// Has the signature of clone(2)'s function. Never returns.
[[noreturn]] int child_exec(void* plan);

}  // namespace muster::agent::process
