#include "agent/commands/stack_report.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <map>
#include <optional>

#include "agent/proc/proc_table.h"
#include "agent/stacks/kernel_stack.h"
#include "agent/stacks/user_stack.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline commands {
namespace {

// Leaves room for the remark that threads are missing.
constexpr std::size_t kMaxProcessStack = proto::kMaxMessageBytes - 1024;

struct Target {
  int rank = 0;
  pid_t pid = 0;
};

std::optional<Target> parse_target(std::string_view text) {
  const auto parts = base::split(text, ':');
  if (parts.size() != 2) return std::nullopt;
  const auto rank = base::parse_decimal(parts[0], 1L << 30);
  const auto pid = base::parse_decimal(parts[1], 1L << 30);
  if (!rank || !pid || *pid == 0) return std::nullopt;
  return Target{static_cast<int>(*rank), static_cast<pid_t>(*pid)};
}

v1::ThreadStack thread_of(const KernelStack& kernel, const UserStack* user) {
  v1::ThreadStack thread;
  thread.set_name(base::valid_utf8(kernel.name));
  thread.set_state(std::string(1, kernel.state));
  thread.set_wait_channel(kernel.wait_channel);
  for (const std::string& frame : kernel.frames) thread.add_kernel(frame);
  if (user == nullptr) return thread;
  thread.set_problem(user->problem);
  for (const UserFrame& frame : user->frames) {
    v1::StackFrame& to = *thread.add_user();
    to.set_address(frame.address);
    to.set_function(base::valid_utf8(frame.function));
    to.set_module(base::valid_utf8(frame.module));
  }
  return thread;
}

// Adds a thread. Threads of a pool often wait at the same place. So if a listed thread has the same name and stack,
// only the id is added to it.
void add_thread(const v1::ThreadStack& thread, pid_t tid, v1::ProcessStack& process) {
  std::string key = thread.SerializeAsString();
  for (v1::ThreadStack& other : *process.mutable_threads()) {
    v1::ThreadStack alike = other;
    alike.clear_tids();
    alike.set_name(thread.name());
    if (alike.SerializeAsString() != key) continue;
    other.add_tids(tid);
    return;
  }
  v1::ThreadStack& added = *process.add_threads();
  added = thread;
  added.add_tids(tid);
}

v1::ProcessStack read_process_stack(const ProcessInfo& info, int rank) {
  v1::ProcessStack process;
  process.set_rank(rank);
  process.set_pid(info.pid);
  process.set_command(base::valid_utf8(info.command));
  const std::vector<KernelStack> kernel = read_kernel_stacks(info.pid);
  std::map<pid_t, UserStack> user;
  const bool hangs = std::ranges::any_of(kernel, [](const KernelStack& stack) { return stack.state == 'D'; });
  if (hangs) {
    process.set_problem("a thread cannot be interrupted in the kernel (state D): no user stacks");
  } else {
    auto stacks = read_user_stacks(info.pid);
    if (stacks.ok()) {
      user = std::move(*stacks);
    } else {
      process.set_problem("no user stacks: " + stacks.status().message());
    }
  }
  for (const KernelStack& stack : kernel) {
    const auto found = user.find(stack.tid);
    add_thread(thread_of(stack, found == user.end() ? nullptr : &found->second), stack.tid, process);
  }
  return process;
}

base::Status write_process(v1::ProcessStack process) {
  bool is_cut = false;
  while (process.ByteSizeLong() > kMaxProcessStack && process.threads_size() > 0) {
    process.mutable_threads()->RemoveLast();
    is_cut = true;
  }
  if (is_cut) process.set_problem("too many different stacks: the last threads are left out");
  MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(process));
  return base::write_all_blocking(STDOUT_FILENO, frame.data(), frame.size());
}

}  // namespace

base::Status report_stacks(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  const std::vector<ProcessInfo> table = read_all_processes();
  for (const std::string& argument : arguments) {
    const auto target = parse_target(argument);
    if (!target) return base::invalid_argument("'{}' is not RANK:PID", base::printable(argument));
    const auto own = std::ranges::find(table, target->pid, &ProcessInfo::pid);
    if (own == table.end()) continue;  // the rank has ended
    std::vector<ProcessInfo> processes = descendants(table, target->pid);
    processes.insert(processes.begin(), *own);
    for (const ProcessInfo& info : processes) {
      if (info.is_dead()) continue;
      MUSTER_RETURN_IF_ERROR(write_process(read_process_stack(info, target->rank)));
    }
  }
  return base::ok_status();
}

}  // namespace muster::agent::commands
