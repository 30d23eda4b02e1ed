// The whole of WardenProcess. Read run() and wait_for_events() first, then the handle() functions, one for each
// command.
// Then read reap(), check_deadlines(), which ends jobs, and empty_the_job(), which kills and audits.

#include "agent/process/warden_process.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>

#include "agent/proc/environ_scan.h"
#include "agent/process/own_process.h"

namespace muster::agent::inline process {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kKillBound{3000};
// The poll interval while the warden waits for the end of processes whose end gives it no SIGCHLD.
constexpr milliseconds kTick{4};
constexpr std::size_t kMostNoted = 4096;  // processes for which the pid outside the namespace is looked up

base::MonotonicTime now_time() {
  return std::chrono::steady_clock::now();
}

// Returns the time since boot, on the clock of the kernel's log.
std::chrono::microseconds time_since_boot() {
  struct timespec now {};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::microseconds(now.tv_nsec / 1000);
}

std::uint64_t core_limit_of(const SpawnRequest& request) {
  for (const RlimitSetting& setting : request.limits) {
    if (setting.resource == RLIMIT_CORE) return setting.soft;
  }
  struct rlimit own {};
  return ::getrlimit(RLIMIT_CORE, &own) == 0 ? own.rlim_cur : RLIM_INFINITY;
}

bool ends_a_process(int signo) {
  return signo == SIGTERM || signo == SIGKILL || signo == SIGINT || signo == SIGHUP || signo == SIGQUIT;
}

// All later steps trust /proc, so it must show this namespace and nothing else.
base::Status mount_own_proc() {
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) {
    return base::errno_error(errno, "cannot make the mounts of a new namespace private");
  }
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return base::errno_error(errno, "/proc cannot be mounted anew");
  }
  return base::ok_status();
}

}  // namespace

WardenProcess::WardenProcess(WardenSetup setup, SessionDir session, LeasePage lease, base::UniqueFd socket)
    : setup_(std::move(setup)),
      session_(std::move(session)),
      lease_(std::move(lease)),
      socket_(MessageSocket(std::move(socket))) {}

void WardenProcess::run() {
  if (const base::Status status = set_up(); !status.ok()) refuse(status);
  while (true) {
    wait_for_events();
    handle_next_command();
    check_deadlines();
  }
}

base::Status WardenProcess::set_up() {
  ::setsid();  // the terminal's signals go to the agent, which decides
  ::prctl(PR_SET_NAME, "muster-warden");
  // If the agent ends while the warden is stopped, the kernel continues the warden. It then acts on the agent's end.
  ::prctl(PR_SET_PDEATHSIG, SIGCONT);
  std::vector<int> kept{socket_.fd(), session_.lock_fd(), lease_.wake_fd(), lease_.page_fd(), setup_.host_proc.get()};
  if (setup_.agent_pidfd.valid()) kept.push_back(setup_.agent_pidfd.get());
  MUSTER_RETURN_IF_ERROR(keep_only_descriptors(kept));
  MUSTER_RETURN_IF_ERROR(become_supervisor());
  ::signal(SIGCHLD, SIG_DFL);  // if ignored, the kernel would reap children by itself
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  if (setup_.use_pidns) MUSTER_RETURN_IF_ERROR(mount_own_proc());
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  child_signal_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!child_signal_.valid()) return base::errno_error(errno, "create a signalfd");
  base::UniqueFd notes;
  // With a PID namespace no notes are needed: its processes end with it, and its pids mean nothing outside.
  if (!setup_.use_pidns) {
    MUSTER_ASSIGN_OR_RETURN(notes, open_note(session_.path(), "ranks"));
    // Ranks without a terminal are in the warden's session. A sweep finds their remains by that session's number.
    const std::string own = fmt::format("{} {}\n", ::getsid(0), ticks_since_boot());
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(notes.get(), own.data(), own.size()));
  }
  MUSTER_ASSIGN_OR_RETURN(Spawner spawner,
                          Spawner::create(setup_.job_id, std::move(notes), setup_.use_pidns ? 0 : setup_.agent_pid));
  spawner_ = std::make_unique<Spawner>(std::move(spawner));
  MUSTER_RETURN_IF_ERROR(set_up_cgroup());
  const Cgroup* cgroup = container_->cgroup() ? &*container_->cgroup() : nullptr;
  const OomSources sources = own_oom_sources();
  oom_ = std::make_unique<OomWatch>(cgroup, sources);
  memory_.memory_events = sources.memory_events;

  if (cgroup == nullptr && !setup_.use_pidns) {
    MUSTER_ASSIGN_OR_RETURN(DescendantNotes notes_of_others, DescendantNotes::create(session_.path()));
    descendants_ = std::make_unique<DescendantNotes>(std::move(notes_of_others));
  }
  containment_.cgroup = cgroup != nullptr;
  containment_.pidns = setup_.use_pidns;
  WardenReady ready;
  ready.is_ok = true;
  ready.pid = own_pid_in(setup_.host_proc.get());
  ready.containment = containment_;
  ready.cgroup_path = cgroup != nullptr ? cgroup->path() : std::string();
  socket_.send(encode(ready));
  return socket_.flush();
}

base::Status WardenProcess::set_up_cgroup() {
  containment_.note = setup_.note;
  std::optional<Cgroup> cgroup;
  if (setup_.use_cgroup) {
    auto made = Cgroup::create(fmt::format("muster-{}-{}", setup_.job_id, setup_.agent_id));
    base::Status status = made.status();
    if (made.ok()) {
      status = spawner_->try_cgroup(*made);
      if (status.ok()) status = write_note(session_.path(), "cgroup", made->path() + "\n");
      if (!status.ok() && !made->remove().ok()) return status;
    }
    if (!status.ok() && setup_.require_cgroup) return status;
    if (status.ok()) {
      cgroup.emplace(std::move(*made));
    } else {
      containment_.note += fmt::format("{}no cgroup: {}", containment_.note.empty() ? "" : "; ", status.message());
    }
  }
  container_ = std::make_unique<JobContainer>(std::move(cgroup), setup_.use_pidns);
  return base::ok_status();
}

void WardenProcess::refuse(const base::Status& status) {
  WardenReady ready;
  ready.error = status.message();
  ready.pid = own_pid_in(setup_.host_proc.get());
  socket_.send(encode(ready));
  if (socket_.flush().ok()) ::_exit(0);
  // The agent has ended, so no other process removes the cgroup and the session directory.
  if (container_ != nullptr && container_->cgroup()) container_->cgroup()->remove_blocking();
  (void)session_.remove();  // no process is left to read an error
  ::_exit(1);
}

void WardenProcess::wait_for_events() {
  std::array<pollfd, 4> wanted{{{socket_.fd(), POLLIN, 0},
                                {child_signal_.get(), POLLIN, 0},
                                {lease_.wake_fd(), POLLIN, 0},
                                {setup_.agent_pidfd.get(), POLLIN, 0}}};  // poll ignores -1
  if (socket_.wants_to_write()) wanted[0].events |= POLLOUT;
  if (::poll(wanted.data(), wanted.size(), poll_timeout(now_time())) <= 0) return;
  if (wanted[1].revents != 0) reap();
  if (wanted[2].revents != 0) lease_.drain_wake();
  if (wanted[0].revents != 0) read_commands();
  if (wanted[3].revents != 0) agent_is_gone();
}

void WardenProcess::read_commands() {
  if (!socket_.flush().ok()) agent_is_gone();
  auto messages = socket_.receive();
  if (!messages.ok()) agent_is_gone();
  if (socket_.peer_gone()) agent_is_gone();
  if (!messages->empty()) wait_on_for_agent();
  for (const SocketMessage& message : *messages) {
    auto command = decode_command(message.payload);
    MUSTER_CHECK(command.ok());
    // A stop overtakes the commands that wait.
    if (const auto* stop = std::get_if<StopCommand>(&*command)) {
      handle(*stop);
    } else {
      commands_.push_back(std::move(*command));
    }
  }
}

// Handles one command in each turn of the loop. So a long row of spawns delays neither an exit nor the agent's end.
void WardenProcess::handle_next_command() {
  if (commands_.empty()) return;
  WardenCommand command = std::move(commands_.front());
  commands_.pop_front();
  std::visit([this](auto& one) { handle(one); }, command);
}

void WardenProcess::send(WardenEvent event) {
  SocketMessage message = encode(std::move(event));
  socket_.send(std::move(message.payload), std::move(message.fds));
  // Ignore the error. It shows again as EOF on the next read, where it is handled.
  if (const base::Status status = socket_.flush(); !status.ok()) return;
}

void WardenProcess::handle(SpawnRequest& request) {
  if (phase_ != Phase::kServing) {
    refuse_spawn(request);
    return;
  }
  auto result = spawner_->spawn(request, container_->cgroup() ? &*container_->cgroup() : nullptr);
  if (auto* failed = std::get_if<RankStartFailed>(&result)) {
    send(std::move(*failed));
    return;
  }
  auto& spawned = std::get<Spawned>(result);
  const pid_t inside = spawned.child.pid;
  pid_t pid = inside;
  if (setup_.use_pidns && spawned.child.pidfd.valid()) {
    const pid_t outside = pid_of_pidfd(setup_.host_proc.get(), spawned.child.pidfd.get());
    if (outside > 0) pid = outside;
  }
  ranks_[inside] = Rank{.pid = pid,
                        .program = std::move(spawned.program),
                        .workdir = request.workdir,
                        .core_limit = core_limit_of(request)};
  rank_numbers_[inside] = request.rank;
  if (descendants_ != nullptr) descendants_->begin(now_time());
  send(RankStarted{request.rank, pid, inside, std::move(spawned.stdin_fd), std::move(spawned.stdout_fd),
                   std::move(spawned.stderr_fd), spawned.at, std::move(spawned.pmi_fd)});
}

void WardenProcess::signal_rank(pid_t pid_inside, Rank& rank, int signo) {
  // The rank leads its group and is not reaped, so no other group can have this number.
  if (::kill(-pid_inside, signo) != 0 || !ends_a_process(signo)) return;
  rank.is_signalled_by_us = true;
  rank.is_killed_by_us = rank.is_killed_by_us || signo == SIGKILL;
}

void WardenProcess::handle(const SignalCommand& command) {
  reap();  // first, so that a rank that has already ended does not count as ended by our signal
  for (auto& [pid, rank] : ranks_) {
    const int number = rank_numbers_[pid];
    if (command.rank < 0 ? !is_command(number) : number == command.rank) signal_rank(pid, rank, command.signo);
  }
}

// Drops the commands that a stop has overtaken. Spawns get an answer. A pause is dropped, because it would only delay
// the stop.
void WardenProcess::drop_waiting_commands() {
  for (const WardenCommand& command : commands_) {
    if (const auto* request = std::get_if<SpawnRequest>(&command)) refuse_spawn(*request);
  }
  std::erase_if(commands_, [](const WardenCommand& command) {
    return std::holds_alternative<SpawnRequest>(command) || std::holds_alternative<PauseCommand>(command);
  });
}

void WardenProcess::refuse_spawn(const SpawnRequest& request) {
  send(RankStartFailed{request.rank, "process", ECANCELED, "the job is being stopped"});
}

void WardenProcess::handle(const StopCommand& command) {
  drop_waiting_commands();
  reap();
  const Time deadline = now_time() + command.grace;
  const bool is_first = phase_ != Phase::kStopping;
  deadline_ = is_first ? deadline : std::min(deadline_, deadline);
  phase_ = Phase::kStopping;
  if (!is_first) return;
  if (command.grace.count() > 0) {
    for (auto& [pid, rank] : ranks_) {
      signal_rank(pid, rank, SIGTERM);
      if (is_command(rank_numbers_[pid])) signal_rank(pid, rank, SIGHUP);  // shells of terminals ignore SIGTERM
    }
    container_->pause(false);
  }
}

void WardenProcess::handle(const FinishCommand& command) {
  if (phase_ == Phase::kStopping) return;  // the stop that is under way ends all that is left, too
  phase_ = Phase::kFinishing;
  deadline_ = now_time() + command.patience;
}

void WardenProcess::handle(const PauseCommand& command) {
  if (phase_ == Phase::kStopping) return;
  container_->pause(command.on);
}

void WardenProcess::handle(const LeaveCommand&) {
  if (!container_->is_empty()) kill_everything(*container_, kKillBound, [this](const auto&) { reap(); });
  if (container_->cgroup()) container_->cgroup()->remove_blocking();
  // Remove the session now, because the agent may be killed before it removes the session. An agent that still lives
  // removes it again, and reports the reason if that fails.
  ::_exit(session_.remove().ok() ? 0 : 1);
}

void WardenProcess::reap() {
  signalfd_siginfo drained;
  while (::read(child_signal_.get(), &drained, sizeof drained) > 0) {
  }
  while (true) {
    // /proc shows the name of the process until it is reaped.
    siginfo_t next{};
    if (::waitid(P_ALL, 0, &next, WEXITED | WNOHANG | WNOWAIT) != 0 || next.si_pid == 0) return;
    const pid_t pid = next.si_pid;
    const auto rank = ranks_.find(pid);
    std::string command;
    if (rank != ranks_.end() && next.si_code == CLD_KILLED && next.si_status == SIGKILL) {
      if (auto info = read_process(pid)) command = std::move(info->command);
    }
    int status = 0;
    struct rusage usage {};
    if (::wait4(pid, &status, WNOHANG, &usage) != pid) return;
    if (rank == ranks_.end()) continue;  // an adopted orphan
    rank_ended(pid, rank->second, command, status, static_cast<std::uint64_t>(usage.ru_maxrss));
    ranks_.erase(rank);
  }
}

// `command` is the name of a rank that was killed.
void WardenProcess::rank_ended(pid_t pid, Rank& rank, const std::string& command, int status, std::uint64_t peak_kib) {
  const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  // Even during a stop, a SIGKILL that we have not sent came from the kernel or another process. The peers of such a
  // rank may fail first and stop the whole job before the rank can be reaped.
  const bool is_ours = is_killed ? rank.is_killed_by_us : rank.is_signalled_by_us;
  RankExited exited{rank_numbers_[pid], rank.pid, pid, status, is_ours, false, now_time()};
  if (is_killed && !is_ours) {
    OomJudgement judgement =
        oom_->judge({.pid = rank.pid, .command = command, .peak_kib = peak_kib}, time_since_boot());
    exited.oom_killed = judgement.verdict == OomVerdict::kYes;
    exited.oom_suspected = judgement.verdict == OomVerdict::kPerhaps;
    exited.facts.kernel_line = std::move(judgement.kernel_line);
  }
  if (status != 0 && !is_ours) {
    exited.facts.peak_kib = peak_kib;
    exited.facts.free_kib = free_memory_kib(memory_);
    exited.facts.program = std::move(rank.program);
    exited.facts.workdir = std::move(rank.workdir);
    exited.facts.core_limit = rank.core_limit;
  }
  send(std::move(exited));
}

// True if no rank and no other process in the ranks' process groups still runs. The warden sends SIGTERM to these
// groups.
bool WardenProcess::rank_groups_are_gone() const {
  if (!ranks_.empty()) return false;
  if (container_->is_empty()) return true;
  const auto members = container_->members();
  return std::ranges::none_of(members, [this](const Member& member) {
    return !member.info.is_dead() && rank_numbers_.contains(member.info.group);
  });
}

int WardenProcess::poll_timeout(Time now) const {
  if (!commands_.empty()) return 0;
  std::optional<Time> next = agent_deadline_;
  const auto consider = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  if (phase_ == Phase::kStopping) consider(ranks_.empty() ? std::min(deadline_, now + kTick) : deadline_);
  if (phase_ == Phase::kFinishing) consider(std::min(deadline_, now + kTick));
  if (descendants_ != nullptr && !ranks_.empty()) consider(descendants_->next_poll());
  const auto lease = lease_.get();
  if (lease && lease != expired_lease_) consider(*lease + setup_.lease_margin);
  if (!next) return -1;
  const auto wait = std::chrono::ceil<milliseconds>(*next - now).count();
  return static_cast<int>(std::clamp<long>(wait, 0, 3'600'000));
}

void WardenProcess::check_deadlines() {
  const Time now = now_time();
  check_agent(now);
  check_lease(now);
  if (descendants_ != nullptr && !ranks_.empty()) descendants_->poll(now);
  const bool is_over = (phase_ == Phase::kStopping && (now >= deadline_ || rank_groups_are_gone())) ||
                       (phase_ == Phase::kFinishing && (now >= deadline_ || container_->is_empty()));
  if (!is_over) return;
  send(empty_the_job());
  wait_on_for_agent();
  phase_ = Phase::kServing;
}

// After the end of its lease, the agent can only end its job and leave. Each message from the agent in that time
// gives it more time.
void WardenProcess::wait_on_for_agent() {
  if (agent_deadline_) agent_deadline_ = now_time() + 2 * setup_.agent_patience;
}

// Kills an agent that is stopped or hangs, because it must not continue later.
void WardenProcess::check_agent(Time now) {
  if (!agent_deadline_ || now < *agent_deadline_) return;
  agent_deadline_.reset();
  bool is_sent = false;
  if (setup_.use_pidns) {
    // No signal can leave this namespace. The agent's own timer ends the agent (DeadManTimer), and the warden handles
    // that end like any other.
  } else if (setup_.agent_pidfd.valid()) {
    is_sent = send_by_pidfd(setup_.agent_pidfd.get(), SIGKILL);
  } else {
    // Without a pidfd, signal by pid. While the agent lives, no other process can have its pid.
    is_sent = ::kill(setup_.agent_pid, SIGKILL) == 0;
  }
  if (is_sent) agent_is_gone();
}

void WardenProcess::check_lease(Time now) {
  const auto lease = lease_.get();
  if (!lease || lease == expired_lease_ || now < *lease + setup_.lease_margin) return;
  expired_lease_ = lease;
  agent_deadline_ = now + setup_.agent_patience;
  send(LeaseExpired{now});
  drop_waiting_commands();
  send(empty_the_job());
  phase_ = Phase::kServing;
}

JobEmpty WardenProcess::empty_the_job() {
  reap();
  for (auto& [pid, rank] : ranks_) rank.is_signalled_by_us = rank.is_killed_by_us = true;
  JobEmpty empty;
  if (!container_->is_empty()) {
    std::map<pid_t, pid_t> outside;
    KillReport report = kill_everything(*container_, kKillBound, [&](const std::vector<Member>& members) {
      note_outside(members, outside);
      reap();
    });
    for (Member& member : report.killed) {
      const pid_t inside = member.info.pid;
      if (rank_numbers_.contains(inside)) continue;
      const pid_t known = setup_.use_pidns ? outside[inside] : inside;
      empty.killed.push_back({.pid = known > 0 ? known : inside,
                              .command = std::move(member.info.command),
                              .why = member.why,
                              .is_pid_inside = known == 0});
    }
    for (Unkillable& stuck : report.stuck) {
      if (const pid_t known = outside[stuck.pid]; known > 0) stuck.pid = known;
    }
    empty.stuck = std::move(report.stuck);
    container_->pause(false);  // a frozen cgroup would freeze the next ranks in it
  }
  if (!container_->is_namespace_init()) audit(setup_.job_id, session_.path(), setup_.agent_pid, empty);
  if (ranks_.empty()) rank_numbers_.clear();
  empty.oom_others = static_cast<std::uint32_t>(oom_->take_others());
  return empty;
}

// Notes the members' pids as the agent sees them. It does so while the members live, because the kernel does not
// report these pids later. 0 if this kernel never reports them.
void WardenProcess::note_outside(const std::vector<Member>& members, std::map<pid_t, pid_t>& outside) const {
  if (!setup_.use_pidns) return;
  for (const Member& member : members) {
    if (outside.size() == kMostNoted) return;  // in a storm of processes, killing goes first
    const auto [entry, is_new] = outside.try_emplace(member.info.pid, 0);
    if (!is_new) continue;
    const base::UniqueFd pidfd = open_pidfd(member.info.pid);
    entry->second = pidfd.valid() ? pid_of_pidfd(setup_.host_proc.get(), pidfd.get()) : 0;
  }
}

void WardenProcess::agent_is_gone() {
  empty_the_job();
  socket_.close();
  if (container_->cgroup()) container_->cgroup()->remove_blocking();
  const bool is_removed = session_.remove().ok();
  ::_exit(is_removed ? 0 : 1);
}

}  // namespace muster::agent::process
