#include "agent/commands/stack_report.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <map>
#include <optional>
#include <utility>

#include "agent/commands/limited_read.h"
#include "agent/commands/reading_targets.h"
#include "agent/evidence/other_stack.h"
#include "agent/proc/proc_table.h"
#include "agent/stacks/kernel_stack.h"
#include "agent/stacks/python_stack.h"
#include "agent/stacks/user_stack.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "proto/frame.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline commands {
namespace {

// Leaves room for the remark that threads are missing.
constexpr std::size_t kMaxProcessStack = proto::kMaxMessageBytes - 1024;

void add_native(const UserStack& user, v1::ThreadStack& thread) {
  thread.set_problem(user.problem);
  for (const UserFrame& frame : user.frames) {
    v1::StackFrame& to = *thread.add_user();
    to.set_address(frame.address);
    to.set_function(base::valid_utf8(frame.function));
    to.set_module(base::valid_utf8(frame.module));
  }
}

void add_python(const PythonStack& python, v1::ThreadStack& thread) {
  thread.set_python_problem(python.problem);
  for (const PythonFrame& frame : python.frames) {
    v1::PythonFrame& to = *thread.add_python();
    to.set_function(base::valid_utf8(frame.function));
    to.set_file(base::valid_utf8(frame.file));
    to.set_line(frame.line);
  }
}

void add_python_problem(const std::string& problem, v1::ThreadStack& thread) {
  if (problem.empty()) return;
  const std::string& known = thread.python_problem();
  thread.set_python_problem(known.empty() ? problem : known + "; " + problem);
}

v1::ThreadStack thread_of(const KernelStack& kernel) {
  v1::ThreadStack thread;
  thread.set_name(base::valid_utf8(kernel.name));
  thread.set_state(std::string(1, kernel.state));
  thread.set_wait_channel(kernel.wait_channel);
  for (const std::string& frame : kernel.frames) thread.add_kernel(frame);
  return thread;
}

// Collects the threads of a process. Threads of a pool often wait at the same place. So if a listed thread has the same
// stack, only the id is added to it.
class ThreadList {
 public:
  explicit ThreadList(v1::ProcessStack& process) : process_(process) {}

  void add(v1::ThreadStack thread, pid_t tid) {
    v1::ThreadStack nameless = thread;
    nameless.clear_name();
    const auto [known, is_new] = known_.emplace(nameless.SerializeAsString(), process_.threads_size());
    if (is_new) *process_.add_threads() = std::move(thread);
    if (tid != 0) process_.mutable_threads(known->second)->add_tids(tid);
  }

 private:
  v1::ProcessStack& process_;
  std::map<std::string, int> known_;
};

// How long to wait for the Python stacks of all processes, so that the agent's limit is not used up. Each process gets
// what is left, within the two limits that follow. A thousand threads take 0.2 s.
constexpr std::chrono::milliseconds kPatience{4'000};
constexpr std::chrono::milliseconds kLongest{2'000};
constexpr std::chrono::milliseconds kShortest{500};

// Reads the Python stacks, but gives up if the process keeps its memory locked while it hangs in the kernel. The time
// that this takes is subtracted from `patience`.
std::optional<PythonStacks> read_python(const ProcessInfo& info, base::UniqueFd memory,
                                        std::chrono::milliseconds& patience) {
  const auto limit = std::clamp(patience, kShortest, kLongest);
  const auto begin = std::chrono::steady_clock::now();
  auto result = read_within(limit, [pid = info.pid, memory = std::move(memory)]() mutable {
    return read_python_stacks(pid, std::move(memory));
  });
  patience -= std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  if (result) return std::move(*result);
  return PythonStacks{
      .version = {}, .threads = {}, .problem = fmt::format("no answer within {} ms: no Python stacks", limit.count())};
}

// Native functions by thread. Sets the problem of the process if there are none.
std::map<pid_t, UserStack> read_native(const std::vector<KernelStack>& kernel, v1::ProcessStack& process) {
  if (std::ranges::any_of(kernel, [](const KernelStack& stack) { return stack.state == 'D'; })) {
    process.set_problem("a thread cannot be interrupted in the kernel (state D): no user stacks");
    return {};
  }
  auto stacks = read_user_stacks(static_cast<pid_t>(process.pid()));
  if (stacks.ok()) return std::move(*stacks);
  process.set_problem("no user stacks: " + stacks.status().message());
  return {};
}

// Interpreters before 3.11 do not know the ids of their threads with every C library. Then a thread can only be matched
// if there is no other.
void match_only_thread(const std::vector<KernelStack>& kernel, PythonStacks& python) {
  if (kernel.size() == 1 && python.threads.size() == 1) python.threads.front().tid = kernel.front().tid;
}

// A thread has a Python stack in each interpreter in which it has run.
using StacksByThread = std::map<pid_t, std::vector<const PythonStack*>>;

StacksByThread by_thread(const PythonStacks& python) {
  StacksByThread stacks;
  for (const PythonStack& stack : python.threads) {
    if (stack.tid != 0) stacks[stack.tid].push_back(&stack);
  }
  return stacks;
}

// Adds the stack of the newest interpreter in which the thread runs, and says in how many others it does.
void add_python(const std::vector<const PythonStack*>& stacks, v1::ThreadStack& thread) {
  const auto runs = [](const PythonStack* stack) { return !stack->frames.empty() || !stack->problem.empty(); };
  const auto has_frames = [](const PythonStack* stack) { return !stack->frames.empty(); };
  auto shown = std::ranges::find_if(stacks, has_frames);
  if (shown == stacks.end()) shown = std::ranges::find_if(stacks, runs);
  if (shown == stacks.end()) return;
  add_python(**shown, thread);
  const auto others = std::ranges::count_if(stacks, runs) - 1;
  if (others == 0) return;
  add_python_problem(fmt::format("it also runs in {} other {} of this process", others,
                                 others == 1 ? "Python interpreter" : "Python interpreters"),
                     thread);
}

// Asks others for the Python stack, because the memory could not be read.
void read_by_others(const ProcessInfo& info, const std::string& session_dir, std::chrono::milliseconds& patience,
                    PythonStacks& python, v1::ProcessStack& process) {
  const auto begin = std::chrono::steady_clock::now();
  const auto other = read_other_stack(session_dir, info, begin + std::min(patience, kOtherStackLimit));
  patience -= std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  add_other_stack(other, info.pid, python);
  process.set_python_source(other.source);
}

v1::ProcessStack read_process_stack(const ProcessInfo& info, int rank, ReadingTargets& targets,
                                    std::chrono::milliseconds& patience) {
  v1::ProcessStack process;
  process.set_rank(rank);
  process.set_pid(info.pid);
  process.set_command(base::valid_utf8(info.command));
  auto python = read_python(info, targets.take_memory(info.pid), patience);
  if (python && needs_other_stack(*python)) read_by_others(info, targets.session_dir, patience, *python, process);
  const std::vector<KernelStack> kernel = read_kernel_stacks(info.pid);
  std::map<pid_t, UserStack> native;
  // Without Python stacks, the native functions are all that can be shown.
  if (targets.is_native || !python || python->threads.empty()) native = read_native(kernel, process);
  if (!python) python.emplace();
  process.set_python(python->version);
  match_only_thread(kernel, *python);
  const StacksByThread by_tid = by_thread(*python);
  ThreadList threads(process);
  for (const KernelStack& stack : kernel) {
    v1::ThreadStack thread = thread_of(stack);
    if (const auto found = native.find(stack.tid); found != native.end()) add_native(found->second, thread);
    if (const auto found = by_tid.find(stack.tid); found != by_tid.end()) add_python(found->second, thread);
    if (stack.tid == info.pid) add_python_problem(python->problem, thread);
    threads.add(std::move(thread), stack.tid);
  }
  const auto is_listed = [&](pid_t tid) { return std::ranges::find(kernel, tid, &KernelStack::tid) != kernel.end(); };
  for (const PythonStack& stack : python->threads) {
    if (is_listed(stack.tid)) continue;
    v1::ThreadStack thread;
    add_python(stack, thread);
    if (stack.problem.empty()) thread.set_python_problem("it is not known which thread of the process this is");
    threads.add(std::move(thread), 0);
  }
  return process;
}

base::Status write_process(v1::ProcessStack process) {
  std::size_t size = process.ByteSizeLong();
  bool is_cut = false;
  while (size > kMaxProcessStack && process.threads_size() > 0) {
    size -= process.threads(process.threads_size() - 1).ByteSizeLong();
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
  MUSTER_ASSIGN_OR_RETURN(ReadingTargets targets, parse_reading_targets(arguments));
  const std::vector<ProcessInfo> table = read_all_processes();
  std::chrono::milliseconds patience = kPatience;
  for (const auto& [rank, pid] : targets.ranks) {
    const auto own = std::ranges::find(table, pid, &ProcessInfo::pid);
    if (own == table.end()) continue;  // the rank has ended
    std::vector<ProcessInfo> processes = descendants(table, pid);
    processes.insert(processes.begin(), *own);
    for (const ProcessInfo& info : processes) {
      if (info.is_dead()) continue;
      MUSTER_RETURN_IF_ERROR(write_process(read_process_stack(info, rank, targets, patience)));
    }
  }
  return base::ok_status();
}

}  // namespace muster::agent::commands
