// The child's whole code between clone(CLONE_VM | CLONE_VFORK) and execve(). Read child_exec() first; it lists the
// steps.
// It may make only these system calls, all raw: prctl, getppid, getpid, setsid, setpgid, rt_sigaction,
// rt_sigprocmask, write, chdir, sched_setaffinity, dup3, ioctl, umask, prlimit64, execve, exit_group.
// It uses no libc, no allocation, no errno and no thread-local state.
#include "agent/process/child_exec.h"

#include <asm/ioctls.h>
#include <linux/prctl.h>

#include <cerrno>
#include <csignal>

#include "agent/proc/raw_syscall.h"

namespace muster::agent::inline process {
namespace {

constexpr int kSignals = 64;

// The kernel's own struct sigaction. All zeros mean the default disposition.
struct KernelSigaction {
  unsigned long handler = 0;
  unsigned long flags = 0;
  unsigned long restorer = 0;
  unsigned long mask = 0;
};

[[noreturn]] MUSTER_BARE void fail(ChildPlan* plan, ChildStep step, long result, std::size_t index = 0) {
  plan->failed_step = step;
  plan->failed_errno = static_cast<int>(-result);
  plan->failed_index = index;
  while (true) raw_syscall(SYS_exit_group, 127);
}

// Ignore errors: a kernel without Yama refuses this call, and needs no permission. The permission survives execve.
MUSTER_BARE void allow_tracer(const ChildPlan* plan) {
  if (plan->tracer > 0) raw_syscall(SYS_prctl, PR_SET_PTRACER, plan->tracer);
}

MUSTER_BARE void reset_dispositions() {
  KernelSigaction by_default;
  for (int signo = 1; signo <= kSignals; ++signo) {
    if (signo == SIGKILL || signo == SIGSTOP) continue;
    raw_syscall(SYS_rt_sigaction, signo, raw_arg(&by_default), 0, sizeof by_default.mask);
  }
}

MUSTER_BARE void die_with_parent(ChildPlan* plan) {
  const long result = raw_syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (result < 0) fail(plan, ChildStep::kParent, result);
  // If the parent died before the call above, the kernel would never send the signal.
  if (raw_syscall(SYS_getppid) != plan->parent) fail(plan, ChildStep::kParent, -ESRCH);
}

// Appends a line about this process to the session's note. After agent and warden are gone, a sweep reads that note. So
// it knows the session of this process even if the process has changed its environment.
// Ignore errors: a full disk costs only the note.
MUSTER_BARE void write_note(const ChildPlan* plan) {
  char line[64];
  char digits[24];
  int count = 0;
  for (long pid = raw_syscall(SYS_getpid); pid > 0; pid /= 10) digits[count++] = static_cast<char>('0' + pid % 10);
  int size = 0;
  while (count > 0) line[size++] = digits[--count];
  for (const char* tail = plan->note_tail; *tail != '\0' && size < 64; ++tail) line[size++] = *tail;
  raw_syscall(SYS_write, plan->note_fd, raw_arg(line), size);
}

MUSTER_BARE void set_stdio(ChildPlan* plan) {
  const long in = plan->stdin_fd < 0 ? 0 : raw_syscall(SYS_dup3, plan->stdin_fd, 0, 0);
  if (in < 0) fail(plan, ChildStep::kStdio, in);
  const long out = raw_syscall(SYS_dup3, plan->stdout_fd, 1, 0);
  if (out < 0) fail(plan, ChildStep::kStdio, out);
  const long err = raw_syscall(SYS_dup3, plan->stderr_fd, 2, 0);
  if (err < 0) fail(plan, ChildStep::kStdio, err);
  // Place this descriptor last, because it may overwrite a descriptor that the steps above still need.
  const long pmi = plan->pmi_fd < 0 ? 0 : raw_syscall(SYS_dup3, plan->pmi_fd, plan->pmi_target, 0);
  if (pmi < 0) fail(plan, ChildStep::kStdio, pmi);
  const long owned = plan->is_terminal ? raw_syscall(SYS_ioctl, 0, TIOCSCTTY, 0) : 0;
  if (owned < 0) fail(plan, ChildStep::kTerminal, owned);
}

MUSTER_BARE void set_limits(ChildPlan* plan) {
  for (std::size_t i = 0; i < plan->limit_count; ++i) {
    const long result = raw_syscall(SYS_prlimit64, 0, plan->limits[i].resource, raw_arg(&plan->limits[i].value), 0);
    if (result < 0) fail(plan, ChildStep::kLimits, result, i);
  }
}

MUSTER_BARE bool try_next_candidate(long result) {
  return result == -ENOENT || result == -ENOTDIR || result == -EACCES || result == -ESTALE || result == -ENODEV ||
         result == -ETIMEDOUT;
}

// Works like execvp(3): reports a candidate without permission only if no later one can be run.
[[noreturn]] MUSTER_BARE void exec_candidates(ChildPlan* plan) {
  long worst = -ENOENT;
  std::size_t worst_index = 0;
  for (std::size_t i = 0; plan->candidates[i] != nullptr; ++i) {
    plan->tried_index = i;
    const long result = raw_syscall(SYS_execve, raw_arg(plan->candidates[i]), raw_arg(plan->argv), raw_arg(plan->envp));
    if (!try_next_candidate(result)) fail(plan, ChildStep::kExec, result, i);
    if (result == -EACCES && worst != -EACCES) {
      worst = result;
      worst_index = i;
    }
  }
  fail(plan, ChildStep::kExec, worst, worst_index);
}

}  // namespace

const char* child_step_name(ChildStep step) {
  switch (step) {
    case ChildStep::kNone:
      return "none";
    case ChildStep::kParent:
      return "parent";
    case ChildStep::kSession:
      return "session";
    case ChildStep::kCgroup:
      return "cgroup";
    case ChildStep::kWorkdir:
      return "workdir";
    case ChildStep::kAffinity:
      return "affinity";
    case ChildStep::kStdio:
      return "stdio";
    case ChildStep::kTerminal:
      return "terminal";
    case ChildStep::kLimits:
      return "limits";
    case ChildStep::kExec:
      return "exec";
  }
  return "none";
}

MUSTER_BARE int child_exec(void* argument) {
  auto* plan = static_cast<ChildPlan*>(argument);
  die_with_parent(plan);
  // Only a rank with a terminal gets a session of its own. Linux shares out processors by session (sched_autogroup).
  // If ranks share a session, a rank that yields gives its core to another rank. In a session of its own, it would
  // give the core to any process on the host.
  long result = plan->is_terminal ? raw_syscall(SYS_setsid) : raw_syscall(SYS_setpgid, 0, 0);
  if (result < 0) fail(plan, ChildStep::kSession, result);
  reset_dispositions();
  allow_tracer(plan);
  if (plan->note_fd >= 0) write_note(plan);
  if (plan->cgroup_procs_fd >= 0) {
    const char self = '0';
    result = raw_syscall(SYS_write, plan->cgroup_procs_fd, raw_arg(&self), 1);
    if (result < 0) fail(plan, ChildStep::kCgroup, result);
  }
  if (plan->workdir != nullptr) {
    result = raw_syscall(SYS_chdir, raw_arg(plan->workdir));
    if (result < 0) fail(plan, ChildStep::kWorkdir, result);
  }
  if (plan->cpu_mask_bytes > 0) {
    result = raw_syscall(SYS_sched_setaffinity, 0, static_cast<long>(plan->cpu_mask_bytes), raw_arg(plan->cpu_mask));
    if (result < 0) fail(plan, ChildStep::kAffinity, result);
  }
  set_stdio(plan);
  raw_syscall(SYS_umask, static_cast<long>(plan->umask));
  set_limits(plan);
  const unsigned long no_signals = 0;
  raw_syscall(SYS_rt_sigprocmask, SIG_SETMASK, raw_arg(&no_signals), 0, sizeof no_signals);
  exec_candidates(plan);
}

}  // namespace muster::agent::process
