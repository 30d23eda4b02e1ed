// The whole of Warden, the agent's side. warden_process.cc is the other side, the warden process.
// Read State first, then start() and read_events(), then the commands, then close() and clean_up_without_warden().

#include "agent/process/warden.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <map>
#include <set>

#include "agent/proc/environ_scan.h"
#include "agent/proc/proc_table.h"
#include "agent/proc/session_dir.h"
#include "agent/process/dead_man_timer.h"
#include "agent/process/job_container.h"
#include "agent/process/lease_page.h"
#include "agent/process/own_process.h"
#include "agent/process/warden_fork.h"
#include "agent/process/warden_protocol.h"

namespace muster::agent::inline process {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kLeaveBound{4000};
constexpr milliseconds kCleanUpBound{3000};
// The agent's own timer ends a hung agent this much later than the warden would, so that the warden can do it first.
constexpr milliseconds kWardenFirst{500};

// True while a process that another process forked for us is not our child yet. It becomes our child when its parent
// has ended.
bool is_not_ours_yet(pid_t pid) {
  const auto info = read_process(pid);
  return info && info->parent != ::getpid();
}

// True if the child has been reaped, now or before.
bool reap_within(pid_t pid, milliseconds bound) {
  const auto deadline = Clock::now() + bound;
  std::chrono::microseconds wait{50};
  while (true) {
    const pid_t result = ::waitpid(pid, nullptr, WNOHANG);
    if (result == pid || (result < 0 && errno == ECHILD && !is_not_ours_yet(pid))) return true;
    if (Clock::now() > deadline) return false;
    const timespec pause{0, std::chrono::nanoseconds(wait).count()};
    ::ppoll(nullptr, 0, &pause, nullptr);
    wait = std::min(wait * 2, std::chrono::microseconds(1000));
  }
}

}  // namespace

struct Warden::State {
  State(WardenOptions the_options, WardenParts parts)
      : options(std::move(the_options)),
        session(std::move(parts.session)),
        lease(std::move(parts.lease)),
        socket(std::move(parts.fork.socket)),
        ready(std::move(parts.fork.ready)) {}

  base::Status watch();
  base::Status send(const WardenCommand& command);
  base::Status flush();
  void note(const WardenEvent& event);
  base::Status gone() const;

  struct Rank {
    pid_t pid = 0;
    pid_t pid_inside = 0;
  };

  WardenOptions options;
  SessionDir session;
  LeasePage lease;
  MessageSocket socket;
  WardenReady ready;
  base::UniqueFd epoll;
  bool watches_writing = false;
  // True if the warden ended without an order to leave.
  bool is_gone = false;
  bool is_reaped = false;
  bool is_leaving = false;  // the leave command was sent
  bool is_closed = false;
  std::set<int> asked;        // ranks whose spawn has no answer yet
  std::map<int, Rank> ranks;  // started ranks without a reported end
  // Set only in an agent that has one job. An agent with many jobs must not be ended because of one of them.
  std::unique_ptr<DeadManTimer> dead_man;
  bool must_end = false;  // end_agent_by() was called
};

base::Status Warden::State::watch() {
  epoll.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return base::errno_error(errno, "create an epoll");
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, socket.fd(), &event) != 0) {
    return base::errno_error(errno, "watch the warden");
  }
  return base::ok_status();
}

base::Status Warden::State::gone() const {
  return base::unavailable("the warden (pid {}) has ended", ready.pid);
}

base::Status Warden::State::flush() {
  if (is_gone || is_closed) return gone();
  if (!socket.flush().ok()) return gone();  // read_events() finds the end of the stream and what came before it
  if (socket.wants_to_write() != watches_writing) {
    watches_writing = !watches_writing;
    epoll_event event{};
    event.events = EPOLLIN | (watches_writing ? EPOLLOUT : 0U);
    if (::epoll_ctl(epoll.get(), EPOLL_CTL_MOD, socket.fd(), &event) != 0) {
      return base::errno_error(errno, "watch the warden");
    }
  }
  return base::ok_status();
}

base::Status Warden::State::send(const WardenCommand& command) {
  if (is_gone || is_closed) return gone();
  socket.send(encode(command));
  return flush();
}

void Warden::State::note(const WardenEvent& event) {
  if (const auto* started = std::get_if<RankStarted>(&event)) {
    ranks[started->rank] = {started->pid, started->pid_inside};
    asked.erase(started->rank);
  } else if (const auto* failed = std::get_if<RankStartFailed>(&event)) {
    asked.erase(failed->rank);
  } else if (const auto* exited = std::get_if<RankExited>(&event)) {
    ranks.erase(exited->rank);
  }
}

Warden::Warden(std::unique_ptr<State> state) : state_(std::move(state)) {}
Warden::Warden(Warden&&) noexcept = default;
Warden& Warden::operator=(Warden&& other) noexcept {
  std::swap(state_, other.state_);  // the old one is destroyed with `other`
  return *this;
}

Warden::~Warden() {
  if (!state_ || state_->is_closed) return;
  state_->socket.close();
  state_->session.close_lock();
  // The warden kills what is left and removes the session directory. Wait for it, otherwise a zombie is left to our
  // parent.
  if (!state_->is_reaped) reap_within(state_->ready.pid, kLeaveBound);
}

base::Result<Warden> Warden::start(const WardenOptions& options) {
  MUSTER_RETURN_IF_ERROR(become_supervisor());
  const WardenOwner owner{::getpid(), open_pidfd(::getpid())};
  MUSTER_ASSIGN_OR_RETURN(WardenParts parts, make_warden(options, owner));
  MUSTER_ASSIGN_OR_RETURN(Warden warden, adopt(options, std::move(parts)));
  warden.state_->dead_man = std::make_unique<DeadManTimer>();
  return warden;
}

base::Result<Warden> Warden::adopt(const WardenOptions& options, WardenParts parts) {
  Warden warden(std::make_unique<State>(options, std::move(parts)));
  MUSTER_RETURN_IF_ERROR(warden.state_->watch());
  return warden;
}

int Warden::fd() const {
  return state_->epoll.get();
}

base::Result<std::vector<WardenEvent>> Warden::read_events() {
  if (state_->is_gone || state_->is_closed) return state_->gone();
  const base::Status flushed = state_->flush();
  MUSTER_ASSIGN_OR_RETURN(auto messages, state_->socket.receive());
  std::vector<WardenEvent> events;
  for (SocketMessage& message : messages) {
    MUSTER_ASSIGN_OR_RETURN(WardenEvent event, decode_event(std::move(message)));
    state_->note(event);
    events.push_back(std::move(event));
  }
  // Return the events that came before the end of the stream. The next call returns the error.
  if (events.empty() && (state_->socket.peer_gone() || !flushed.ok())) {
    state_->is_gone = true;
    return state_->gone();
  }
  return events;
}

base::Status Warden::spawn(const SpawnRequest& request) {
  MUSTER_RETURN_IF_ERROR(state_->send(request));
  state_->asked.insert(request.rank);
  return base::ok_status();
}

base::Status Warden::signal(int rank, int signo) {
  return state_->send(SignalCommand{rank, signo});
}

bool Warden::keep_running() {
  if (state_->is_gone || state_->is_closed || state_->is_reaped) return true;
  const auto info = read_process(state_->ready.pid);
  if (!info || info->is_dead()) return true;  // read_events() sees its end on the socket
  // No other process can have its pid, because it is our unreaped child.
  if (info->state == 'T') ::kill(state_->ready.pid, SIGCONT);
  return info->state != 'T' && info->state != 't' && info->state != 'D';
}

void Warden::kill_hung() {
  if (!state_->is_gone && !state_->is_closed && !state_->is_reaped) ::kill(state_->ready.pid, SIGKILL);
}

base::Status Warden::stop(milliseconds grace) {
  (void)keep_running();
  return state_->send(StopCommand{grace});
}

base::Status Warden::finish(milliseconds patience) {
  const auto running = std::distance(state_->ranks.begin(), state_->ranks.lower_bound(kFirstCommand)) +
                       std::distance(state_->asked.begin(), state_->asked.lower_bound(kFirstCommand));
  if (running > 0) return base::failed_precondition("{} ranks have not ended: stop them first", running);
  return state_->send(FinishCommand{patience});
}

base::Status Warden::pause(bool on) {
  return state_->send(PauseCommand{on});
}

void Warden::renew_lease(base::MonotonicTime until) {
  state_->lease.set(until);
  state_->session.write_lease(until);
  if (state_->dead_man == nullptr || state_->must_end) return;
  state_->dead_man->set(until + state_->options.lease_margin + state_->options.agent_patience + kWardenFirst);
}

void Warden::suspend_lease() {
  state_->lease.set(std::nullopt);
  state_->session.write_lease(std::nullopt);
  if (state_->dead_man != nullptr && !state_->must_end) state_->dead_man->set(std::nullopt);
}

void Warden::end_agent_by(base::MonotonicTime when) {
  if (state_->dead_man == nullptr || std::exchange(state_->must_end, true)) return;
  state_->dead_man->set(when);
}

const Containment& Warden::containment() const {
  return state_->ready.containment;
}

const std::string& Warden::session_dir() const {
  return state_->session.path();
}

pid_t Warden::pid() const {
  return state_->ready.pid;
}

void Warden::begin_close() {
  if (state_->is_gone || state_->is_closed || std::exchange(state_->is_leaving, true)) return;
  // Send LeaveCommand, so that the warden does not take the end of the socket for the agent's death. The warden would
  // then do the same, but later. An error of flush() means the end of the stream, which read_events() finds.
  (void)keep_running();
  state_->socket.send(encode(LeaveCommand{}));
  (void)state_->flush();
}

base::Status Warden::close() {
  if (state_->is_closed) return base::ok_status();
  if (!state_->is_gone) {
    begin_close();
    const base::Status flushed = state_->flush();
    pollfd wanted{state_->socket.fd(), POLLOUT, 0};
    while (flushed.ok() && state_->socket.wants_to_write() && ::poll(&wanted, 1, 1000) > 0) {
      if (!state_->flush().ok()) break;
    }
  }
  state_->is_closed = true;
  if (!state_->is_reaped && !reap_within(state_->ready.pid, kLeaveBound)) {
    ::kill(state_->ready.pid, SIGKILL);  // no other process can have its pid, because it is our unreaped child
    reap_within(state_->ready.pid, kLeaveBound);
  }
  state_->socket.close();
  return state_->session.remove();
}

Warden::Aftermath Warden::clean_up_without_warden(const std::vector<pid_t>& spare) {
  Aftermath aftermath;
  state_->is_gone = true;
  // Kill a warden that only lost its socket, because it must not go on. If the job has a PID namespace, this ends
  // everything in it.
  if (!state_->is_reaped) {
    ::kill(state_->ready.pid, SIGKILL);  // no other process can have its pid, because it is our unreaped child
    state_->is_reaped = reap_within(state_->ready.pid, kCleanUpBound);
  }
  std::optional<Cgroup> cgroup;
  if (!state_->ready.cgroup_path.empty()) {
    if (auto opened = Cgroup::open(state_->ready.cgroup_path); opened.ok()) cgroup.emplace(std::move(*opened));
  }
  std::map<pid_t, int> wait_statuses;
  const JobContainer container(std::move(cgroup), false, spare);
  KillReport report = kill_everything(container, kCleanUpBound, [&](const std::vector<Member>& members) {
    for (const Member& member : members) {
      int status = 0;
      if (member.info.is_dead() && ::waitpid(member.info.pid, &status, WNOHANG) == member.info.pid) {
        wait_statuses[member.info.pid] = status;
      }
    }
  });
  const auto now = Clock::now();
  for (const auto& [number, rank] : state_->ranks) {
    const auto known = wait_statuses.find(rank.pid);
    // If the status is unknown, the rank was in a PID namespace, whose end killed it by SIGKILL.
    const int status = known != wait_statuses.end() ? known->second : SIGKILL;
    const bool is_ours = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    aftermath.ranks.push_back({number, rank.pid, rank.pid_inside, status, is_ours, false, now});
    const pid_t own = rank.pid;  // a lambda cannot capture a structured binding under clang 14
    std::erase_if(report.killed, [own](const Member& member) { return member.info.pid == own; });
  }
  state_->ranks.clear();
  for (const int rank : state_->asked) {
    aftermath.not_started.push_back({rank, "process", ECHILD, "the warden ended while it started this rank"});
  }
  state_->asked.clear();
  for (Member& member : report.killed) {
    aftermath.empty.killed.push_back({member.info.pid, std::move(member.info.command), member.why});
  }
  aftermath.empty.stuck = std::move(report.stuck);
  audit(state_->options.job_id, state_->session.path(), ::getpid(), aftermath.empty);
  if (container.cgroup()) container.cgroup()->remove_blocking();
  return aftermath;
}

}  // namespace muster::agent::process
