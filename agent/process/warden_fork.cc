// Forks a warden. Read make_warden() at the end first, then fork_warden(), which tries one level after another.
// Then read fork_at_level(), and run_between() for the namespaces.

#include "agent/process/warden_fork.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

#include "agent/process/keepers.h"
#include "agent/process/own_process.h"
#include "base/ids.h"

namespace muster::agent::inline process {
namespace {

constexpr int kReadyTimeoutMs = 10'000;

base::Status write_to(const char* path, const std::string& text) {
  const base::UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC));
  if (!fd.valid()) return base::errno_error(errno, fmt::format("open {}", path));
  return base::write_all_blocking(fd.get(), text.data(), text.size()).with_context(path);
}

// An ordinary user may make a PID namespace only inside a user namespace. The mapping keeps its uid and gid.
base::Status unshare_namespaces() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  const int user = uid == 0 ? 0 : CLONE_NEWUSER;
  if (::unshare(user | CLONE_NEWPID | CLONE_NEWNS) != 0) return base::errno_error(errno, "new namespaces");
  if (user == 0) return base::ok_status();
  // Be dumpable while writing, because root owns the map files of a process that is not. The warden changes this back
  // before it serves.
  ::prctl(PR_SET_DUMPABLE, 1);
  MUSTER_RETURN_IF_ERROR(write_to("/proc/self/setgroups", "deny"));
  MUSTER_RETURN_IF_ERROR(write_to("/proc/self/uid_map", fmt::format("{} {} 1", uid, uid)));
  return write_to("/proc/self/gid_map", fmt::format("{} {} 1", gid, gid));
}

[[noreturn]] void run_warden(WardenSetup setup, SessionDir& session, LeasePage& lease, base::UniqueFd socket) {
  WardenProcess warden(std::move(setup), std::move(session), std::move(lease), std::move(socket));
  warden.run();
}

// Runs in a process between agent and warden: it enters the namespaces, forks the warden and ends. The warden becomes
// the agent's child, because the agent is a subreaper. So the agent itself stays in its own namespaces.
[[noreturn]] void run_between(WardenSetup setup, SessionDir& session, LeasePage& lease, base::UniqueFd socket) {
  base::Status status = unshare_namespaces();
  if (status.ok()) {
    const pid_t pid = ::fork();
    if (pid == 0) run_warden(std::move(setup), session, lease, std::move(socket));
    if (pid > 0) ::_exit(0);
    status = base::errno_error(errno, "fork the warden");
  }
  WardenReady ready;
  ready.error = status.message();
  MessageSocket out(std::move(socket));
  out.send(encode(ready));
  if (out.flush().ok()) ::_exit(0);
  // The agent has ended, so no other process removes the session directory or reads an error.
  (void)session.remove();
  ::_exit(1);
}

// Holds back signals that would end this process until the warden can clean up. Before that, nothing would remove the
// session directory.
class HeldEnd {
 public:
  HeldEnd() {
    sigset_t ends;
    ::sigemptyset(&ends);
    for (const int signo : {SIGHUP, SIGINT, SIGTERM}) ::sigaddset(&ends, signo);
    ::pthread_sigmask(SIG_BLOCK, &ends, &before_);
  }
  ~HeldEnd() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldEnd(const HeldEnd&) = delete;
  HeldEnd& operator=(const HeldEnd&) = delete;

 private:
  sigset_t before_{};
};

base::Result<WardenReady> read_ready(MessageSocket& socket) {
  while (true) {
    pollfd wanted{socket.fd(), POLLIN, 0};
    const int ready = ::poll(&wanted, 1, kReadyTimeoutMs);
    if (ready < 0 && errno == EINTR) continue;
    if (ready == 0) return base::deadline_exceeded("the warden did not start within 10 s");
    MUSTER_ASSIGN_OR_RETURN(const auto messages, socket.receive());
    if (!messages.empty()) return decode_ready(messages.front().payload);
    if (socket.peer_gone()) return base::unavailable("the warden ended while it started");
  }
}

struct Level {
  bool pidns = false;
  bool cgroup = false;
  bool require_cgroup = false;
};

std::vector<Level> levels_to_try(ContainLevel wanted) {
  const bool is_root = ::geteuid() == 0;
  switch (wanted) {
    case ContainLevel::kCgroup:
      return {{false, true, true}};
    case ContainLevel::kPidns:
      return {{true, false, false}};
    case ContainLevel::kSubreaper:
      return {{false, false, false}};
    case ContainLevel::kAuto:
      break;
  }
  if (is_root) return {{true, true, false}, {false, true, false}};
  return {{false, true, false}};
}

// Only the forked child moves `session` and `lease` away. It moves its own copies, which fork() made.
base::Result<WardenFork> fork_at_level(const WardenOptions& options, const WardenOwner& owner, const Level& level,
                                       const std::string& note, SessionDir& session, LeasePage& lease) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair pair, base::make_socketpair(SOCK_STREAM | SOCK_NONBLOCK));
  WardenSetup setup;
  setup.job_id = options.job_id;
  setup.agent_id = options.agent_id;
  setup.lease_margin = options.lease_margin;
  setup.agent_patience = options.agent_patience;
  setup.use_pidns = level.pidns;
  setup.use_cgroup = level.cgroup;
  setup.require_cgroup = level.require_cgroup;
  setup.note = note;
  setup.agent_pid = owner.pid;
  if (owner.pidfd.valid()) setup.agent_pidfd.reset(::fcntl(owner.pidfd.get(), F_DUPFD_CLOEXEC, 3));
  setup.host_proc.reset(::open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!setup.host_proc.valid()) return base::errno_error(errno, "open /proc");

  const pid_t pid = ::fork();
  if (pid < 0) return base::errno_error(errno, "fork the warden");
  if (pid == 0) {
    pair.first.reset();
    if (level.pidns) run_between(std::move(setup), session, lease, std::move(pair.second));
    run_warden(std::move(setup), session, lease, std::move(pair.second));
  }
  pair.second.reset();
  if (level.pidns) ::waitpid(pid, nullptr, 0);
  MessageSocket socket(std::move(pair.first));
  auto ready = read_ready(socket);
  if (!ready.ok() || !ready->is_ok) {
    // The forked process has ended or is of no use. Kill and reap it by its pid only if it is surely our unreaped
    // child.
    const pid_t child = !level.pidns ? pid : ready.ok() ? ready->pid : 0;
    if (child > 0 && !ready.ok()) ::kill(child, SIGKILL);
    socket.close();
    if (child > 0) ::waitpid(child, nullptr, 0);
    if (!ready.ok()) return ready.status();
    return base::failed_precondition("{}", ready->error);
  }
  return WardenFork{std::move(socket), std::move(*ready)};
}

base::Result<WardenFork> fork_warden(const WardenOptions& options, const WardenOwner& owner, SessionDir& session,
                                     LeasePage& lease) {
  std::string note;
  if (options.contain == ContainLevel::kAuto && ::geteuid() != 0) {
    note = "no PID namespace: only root gets one by default; request one with --contain pidns";
  }
  base::Status last;
  for (const Level& level : levels_to_try(options.contain)) {
    auto warden = fork_at_level(options, owner, level, note, session, lease);
    if (warden.ok() || warden.status().code() != base::Code::kFailedPrecondition) return warden;
    last = warden.status();
    note = fmt::format("no PID namespace: {}", last.message());
  }
  return last.with_context("this host does not allow the requested containment");
}

base::Status check_agent_id(const std::string& id) {
  const bool is_fine = !id.empty() && id.size() <= 64 && id.front() != '.' && std::ranges::all_of(id, [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
           c == '-';
  });
  if (is_fine) return base::ok_status();
  return base::invalid_argument("'{}' cannot name an agent: [A-Za-z0-9._-] only", id);
}

}  // namespace

base::Result<WardenParts> make_warden(const WardenOptions& options, const WardenOwner& owner) {
  MUSTER_RETURN_IF_ERROR(base::JobId::parse(options.job_id).status());
  MUSTER_RETURN_IF_ERROR(check_agent_id(options.agent_id));
  const HeldEnd held;
  MUSTER_ASSIGN_OR_RETURN(SessionDir session,
                          SessionDir::create(options.session_root, options.job_id, options.agent_id));
  auto lease = LeasePage::create();
  auto fork = lease.ok() ? fork_warden(options, owner, session, *lease) : base::Result<WardenFork>(lease.status());
  // Ignore errors: without the note a stopped keeper cannot be found, but the job can still start.
  if (fork.ok()) (void)note_keepers(session.path(), owner.pid, fork->ready.pid);
  if (!fork.ok()) {
    const base::Status removed = session.remove();
    return removed.ok() ? fork.status() : fork.status().with_context(removed.message());
  }
  return WardenParts{std::move(session), std::move(*lease), std::move(*fork)};
}

}  // namespace muster::agent::process
