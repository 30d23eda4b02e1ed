// One look at ranks. Read report_looks() at the end first, then look_at() and the functions that it calls, then
// Libraries.

#include "agent/commands/look_report.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "agent/commands/limited_read.h"
#include "agent/commands/reading_targets.h"
#include "agent/evidence/flight_recorder.h"
#include "agent/evidence/nccl_client.h"
#include "agent/evidence/nccl_report.h"
#include "agent/evidence/other_stack.h"
#include "agent/evidence/store_connection.h"
#include "agent/proc/proc_table.h"
#include "agent/proc/process_environment.h"
#include "agent/proc/process_sockets.h"
#include "agent/proc/working_process.h"
#include "agent/stacks/kernel_stack.h"
#include "agent/stacks/python_stack.h"
#include "agent/stacks/syscall_place.h"
#include "base/strings.h"
#include "proto/frame.h"
#include "proto/muster/v1/agent.pb.h"

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
  explicit Patience(milliseconds all) : left_(all) {}

  template <typename Read>
  auto read(Read read) {
    const auto begin = std::chrono::steady_clock::now();
    auto result = read_within(std::clamp(left_, kShortestRead, kLongestRead), std::move(read));
    left_ -= std::chrono::duration_cast<milliseconds>(std::chrono::steady_clock::now() - begin);
    return result;
  }

 private:
  milliseconds left_;
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

// Finds the connections of a rank to torch's store. One object for all ranks of a look.
class StoreConnections {
 public:
  void add(pid_t pid, Patience& patience, v1::RankEvidence& evidence) {
    if (is_given_up_) return;
    const auto text = patience.read([tables = tables_, pid]() -> std::string {
      const ProcessEnvironment environment = read_environment(pid);
      if (environment.get("TORCHELASTIC_USE_AGENT_STORE") != "True") return "";  // rank 0 serves the store itself
      const auto port = base::parse_decimal(environment.get("MASTER_PORT").value_or(""), kMaxPort);
      if (!port || *port == 0) return "";
      return format_store_connections(store_connections(tables->of(pid), static_cast<std::uint16_t>(*port)));
    });
    // The thread of a reading that hangs may still use the tables.
    is_given_up_ = !text;
    if (text) evidence.set_awaits(*text);
  }

 private:
  static constexpr long kMaxPort = 65535;

  std::shared_ptr<SocketTables> tables_ = std::make_shared<SocketTables>();
  bool is_given_up_ = false;
};

// The limits of a look, and what its readings share.
struct Reading {
  const std::string session_dir;
  Patience patience{kAllRanks};
  Patience others{kOtherStackLimit};
  StoreConnections connections{};
};

// Asks others for the Python stack, because the memory could not be read.
void ask_others(const ProcessInfo& process, Reading& reading, PythonStacks& python, v1::RankEvidence& evidence) {
  const auto other = reading.others.read([session_dir = reading.session_dir, process] {
    return read_other_stack(session_dir, process, std::chrono::steady_clock::now() + kOtherStackLimit);
  });
  if (!other) return;
  add_other_stack(*other, process.pid, python);
  evidence.set_python_source(other->source);
}

// Reads what may block: Python frames and the native function.
void add_code(const ProcessInfo& process, base::UniqueFd memory, Reading& reading, v1::RankEvidence& evidence) {
  Patience& patience = reading.patience;
  auto python = patience.read(
      [pid = process.pid, memory = std::move(memory)]() mutable { return read_python_stacks(pid, std::move(memory)); });
  // If this reading hangs, the next one would hang, too.
  if (!python) return add_problem("its memory could not be read in time", evidence);
  if (*python && needs_other_stack(**python)) ask_others(process, reading, **python, evidence);
  if (*python) add_python(**python, evidence);
  if (process.state == 'R') return;
  const auto native = patience.read([pid = process.pid] { return native_place(pid); });
  evidence.set_native(native ? base::valid_utf8(*native) : std::string());
}

v1::RankEvidence look_at(int rank, const ProcessInfo& process, base::UniqueFd memory, Reading& reading) {
  v1::RankEvidence evidence;
  evidence.set_rank(rank);
  evidence.set_pid(process.pid);
  evidence.set_state(std::string(1, process.state));
  if (process.state != 'R') evidence.set_wait_channel(wait_channel(process.pid));
  evidence.set_fully_stopped(process.state == 'T' && is_fully_stopped(process.pid));
  add_code(process, std::move(memory), reading, evidence);
  reading.connections.add(process.pid, reading.patience, evidence);
  return evidence;
}

// The processes of a rank.
struct Worker {
  int rank = 0;
  const ProcessInfo* own = nullptr;      // the rank's own process
  const ProcessInfo* process = nullptr;  // that does the rank's work
};

// The result points into `table`.
std::vector<Worker> workers_of(const std::vector<ProcessInfo>& table, const ReadingTargets& targets) {
  std::vector<Worker> workers;
  for (const auto& [rank, pid] : targets.ranks) {
    const auto own = std::ranges::find(table, pid, &ProcessInfo::pid);
    const ProcessInfo* const process = working_process(table, pid, wait_channel);
    if (own == table.end() || process == nullptr) continue;  // the rank has ended
    workers.push_back({.rank = rank, .own = &*own, .process = process});
  }
  return workers;
}

using Torch = base::Result<std::optional<model::TorchCollective>>;

Torch ask_torch(pid_t pid) {
  const auto socket = read_environment(pid).get("TORCH_WORKER_SERVER_SOCKET");
  if (!socket || !socket->starts_with('/')) return base::not_found("the rank serves no control plane of torch");
  return ask_flight_recorder(*socket, pid);
}

using Nccl = std::vector<model::NcclFinding>;

Nccl ask_nccl_of(const std::map<std::int64_t, int>& ranks) {
  std::vector<pid_t> pids;
  for (const auto& [pid, rank] : ranks) pids.push_back(static_cast<pid_t>(pid));
  const auto report = ask_nccl(pids);
  if (report.status().code() == base::Code::kNotFound) return {};  // no rank uses NCCL
  if (!report.ok()) return {{.text = report.status().message()}};
  const auto communicators = parse_nccl_report(*report);
  if (!communicators.ok()) return {{.text = communicators.status().with_context("NCCL's RAS").message()}};
  const std::string size = read_environment(pids.front()).get("WORLD_SIZE").value_or("");
  constexpr long kMostRanks = 1L << 20;
  return nccl_findings(*communicators,
                       {.size = static_cast<int>(base::parse_decimal(size, kMostRanks).value_or(0)), .ranks = ranks});
}

// Asks NCCL and PyTorch in the background while the ranks are read. The constructor starts all time limits.
class Libraries {
 public:
  Libraries(const std::vector<Worker>& workers, const ReadingTargets& targets) {
    std::map<std::int64_t, int> ranks;
    for (const Worker& worker : workers) {
      ranks.emplace(worker.process->pid, worker.rank);
      if (!targets.asks_libraries) continue;
      torch_.emplace(worker.rank, begin_read([pid = worker.process->pid] { return ask_torch(pid); }));
    }
    if (targets.asks_nccl && !ranks.empty()) nccl_ = begin_read([ranks] { return ask_nccl_of(ranks); });
  }

  void add_torch(v1::RankEvidence& evidence) {
    const auto asked = torch_.find(evidence.rank());
    if (asked == torch_.end()) return;
    if (asked->second.wait_until(began_ + kFlightRecorderLimit + kMargin) != std::future_status::ready) {
      return add_problem("PyTorch's flight recorder did not answer in time", evidence);
    }
    const Torch torch = asked->second.get();
    if (torch.status().code() == base::Code::kNotFound) return;
    if (!torch.ok()) return add_problem(torch.status().with_context("PyTorch").message(), evidence);
    if (!*torch) return;
    evidence.mutable_torch()->set_group((*torch)->group);
    evidence.mutable_torch()->set_sequence((*torch)->sequence);
    evidence.mutable_torch()->set_operation((*torch)->operation);
    evidence.mutable_torch()->set_state((*torch)->state);
  }

  Nccl nccl() {
    if (!nccl_.valid()) return {};
    if (nccl_.wait_until(began_ + kNcclRasLimit + kMargin) != std::future_status::ready) {
      return {{.text = "NCCL's RAS did not answer in time"}};
    }
    return nccl_.get();
  }

 private:
  static constexpr milliseconds kMargin{100};

  const std::chrono::steady_clock::time_point began_ = std::chrono::steady_clock::now();
  std::map<int, std::future<Torch>> torch_;  // by rank
  std::future<Nccl> nccl_;
};

base::Status write_answer(const v1::EvidenceAnswer& answer) {
  MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(answer));
  return base::write_all_blocking(STDOUT_FILENO, frame.data(), frame.size());
}

}  // namespace

base::Status report_looks(const std::vector<std::string>& arguments) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGPIPE, SIG_IGN);
  MUSTER_ASSIGN_OR_RETURN(ReadingTargets targets, parse_reading_targets(arguments));
  const std::vector<ProcessInfo> table = read_all_processes();
  const std::vector<Worker> workers = workers_of(table, targets);
  Libraries libraries(workers, targets);
  Reading reading{.session_dir = targets.session_dir};
  for (const Worker& worker : workers) {
    v1::EvidenceAnswer answer;
    v1::RankEvidence& evidence = *answer.add_ranks();
    evidence = look_at(worker.rank, *worker.process, targets.take_memory(worker.process->pid), reading);
    evidence.set_cpu_ms(cpu_ms(table, *worker.own));
    libraries.add_torch(evidence);
    MUSTER_RETURN_IF_ERROR(write_answer(answer));
  }
  v1::EvidenceAnswer last;
  for (const model::NcclFinding& finding : libraries.nccl()) {
    v1::NcclFinding& to = *last.add_nccl();
    to.set_text(base::valid_utf8(finding.text));
    to.mutable_ranks()->Add(finding.ranks.begin(), finding.ranks.end());
  }
  return last.nccl().empty() ? base::ok_status() : write_answer(last);
}

}  // namespace muster::agent::commands
