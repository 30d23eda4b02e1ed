// One look at ranks. Read report_looks() at the end first, then look_at(), then the functions that it calls.

#include "agent/commands/look_report.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <optional>

#include "agent/commands/limited_read.h"
#include "agent/commands/reading_targets.h"
#include "agent/proc/proc_table.h"
#include "agent/proc/working_process.h"
#include "agent/stacks/kernel_stack.h"
#include "agent/stacks/python_stack.h"
#include "agent/stacks/syscall_place.h"
#include "base/strings.h"
#include "proto/frame.h"
#include "proto/muster/v1/job.pb.h"

namespace muster::agent::inline commands {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kMaxShownFrames = 32;
// How long to wait for all ranks together, so that the agent's limit is not used up. Each reading gets what is left,
// within the two limits that follow. A reading takes about 1 ms.
constexpr milliseconds kAllRanks{1'500};
constexpr milliseconds kLongestRead{1'000};
constexpr milliseconds kShortestRead{20};

// Measures what readings use of the time for all ranks.
class Patience {
 public:
  template <typename Read>
  auto read(Read read) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = read_within(std::clamp(left_, kShortestRead, kLongestRead), std::move(read));
    left_ -= std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    return result;
  }

 private:
  milliseconds left_ = kAllRanks;
};

std::int64_t cpu_ms(const std::vector<ProcessInfo>& table, const ProcessInfo& rank) {
  std::uint64_t ticks = rank.cpu_ticks;
  for (const ProcessInfo& info : descendants(table, rank.pid)) ticks += info.cpu_ticks;
  return static_cast<std::int64_t>(ticks * 1000 / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

bool is_fully_stopped(pid_t pid) {
  const auto stacks = read_kernel_stacks(pid);
  return !stacks.empty() && std::ranges::all_of(stacks, [](const KernelStack& stack) { return stack.state == 'T'; });
}

void add_problem(const std::string& problem, v1::RankEvidence& evidence) {
  if (problem.empty()) return;
  const std::string known = evidence.problem();
  evidence.set_problem(known.empty() ? problem : known + "; " + problem);
}

// Returns the stack of the main thread in the newest interpreter in which it runs. nullptr if it runs no Python code.
const PythonStack* main_stack(const PythonStacks& python, pid_t pid) {
  // Interpreters before 3.11 do not know the ids of their threads with every C library.
  if (python.threads.size() == 1 && python.threads.front().tid == 0) return &python.threads.front();
  const PythonStack* found = nullptr;
  for (const PythonStack& stack : python.threads) {
    if (stack.tid != pid) continue;
    if (!stack.frames.empty()) return &stack;
    if (found == nullptr) found = &stack;
  }
  return found;
}

void add_python(const PythonStacks& python, v1::RankEvidence& evidence) {
  add_problem(python.problem, evidence);
  const PythonStack* const stack = main_stack(python, static_cast<pid_t>(evidence.pid()));
  if (stack == nullptr) return;
  evidence.set_moving(stack->has_moved);
  if (stack->frames.empty()) add_problem(stack->problem, evidence);
  for (std::size_t i = 0; i < std::min(stack->frames.size(), kMaxShownFrames); ++i) {
    const PythonFrame& frame = stack->frames[i];
    v1::PythonFrame& to = *evidence.add_python();
    to.set_function(base::valid_utf8(frame.function));
    to.set_file(base::valid_utf8(frame.file));
    to.set_line(frame.line);
  }
}

// Reads what may block: Python frames and the native function.
void add_code(const ProcessInfo& process, base::UniqueFd memory, Patience& patience, v1::RankEvidence& evidence) {
  const auto python = patience.read(
      [pid = process.pid, memory = std::move(memory)]() mutable { return read_python_stacks(pid, std::move(memory)); });
  // If this reading hangs, the next one would hang, too.
  if (!python) return add_problem("its memory could not be read in time", evidence);
  if (*python) add_python(**python, evidence);
  if (process.state == 'R') return;
  const auto native = patience.read([pid = process.pid] { return native_place(pid); });
  evidence.set_native(native ? base::valid_utf8(*native) : std::string());
}

v1::RankEvidence look_at(int rank, const ProcessInfo& process, base::UniqueFd memory, Patience& patience) {
  v1::RankEvidence evidence;
  evidence.set_rank(rank);
  evidence.set_pid(process.pid);
  evidence.set_state(std::string(1, process.state));
  if (process.state != 'R') evidence.set_wait_channel(wait_channel(process.pid));
  evidence.set_fully_stopped(process.state == 'T' && is_fully_stopped(process.pid));
  add_code(process, std::move(memory), patience, evidence);
  return evidence;
}

}  // namespace

base::Status report_looks(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  MUSTER_ASSIGN_OR_RETURN(ReadingTargets targets, parse_reading_targets(arguments));
  const std::vector<ProcessInfo> table = read_all_processes();
  Patience patience;
  for (const auto& [rank, pid] : targets.ranks) {
    const auto own = std::ranges::find(table, pid, &ProcessInfo::pid);
    const ProcessInfo* const process = working_process(table, pid, wait_channel);
    if (own == table.end() || process == nullptr) continue;  // the rank has ended
    v1::RankEvidence evidence = look_at(rank, *process, targets.take_memory(process->pid), patience);
    evidence.set_cpu_ms(cpu_ms(table, *own));
    MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(evidence));
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(STDOUT_FILENO, frame.data(), frame.size()));
  }
  return base::ok_status();
}

}  // namespace muster::agent::commands
