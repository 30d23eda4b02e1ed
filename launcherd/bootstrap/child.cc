// Runs the `ssh` program and local agents as child processes. ChildWatch owns a child after release().
// Read spawn_child first, then ChildProgram::exchange, then ChildWatch.
#include "launcherd/bootstrap/child.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

extern char** environ;

namespace muster::launcherd::inline bootstrap {
namespace {

constexpr auto kChildTermGrace = std::chrono::milliseconds(2000);
// A child that has closed its descriptors gets this time to end.
constexpr auto kEndGrace = std::chrono::milliseconds(500);
constexpr std::size_t kLongestLine = 4096;
constexpr std::size_t kKeptErrors = 64 * 1024;

// Watches a child after release(): it passes stderr to on_stderr and reaps the child. A child that closes stderr but
// lives on has detached itself, as launcherd's warm agents do. ChildWatch does not kill such a child. It only reaps the
// child when it ends.
class ChildWatch final : public PumpItem {
 public:
  ChildWatch(std::unique_ptr<ChildProcess> process, base::UniqueFd errors,
             std::function<void(const std::string& line)> on_stderr)
      : process_(std::move(process)), errors_(std::move(errors)), lines_(std::move(on_stderr)) {}

  ~ChildWatch() override {
    read_errors();
    if (!errors_.valid()) process_->let_go();
    process_.reset();  // waits for the child's end
    read_errors();
    lines_.finish();
  }

  void prepare(std::span<pollfd, kFds> fds) override {
    fds[0] = {process_->pidfd(), POLLIN, 0};
    fds[1] = {errors_.get(), POLLIN, 0};
  }

  bool serve(std::span<const pollfd, kFds> fds) override {
    if (fds[1].revents != 0) read_errors();
    return fds[0].revents == 0 || !process_->reap();
  }

  void ask_to_end() override {
    read_errors();
    if (errors_.valid()) process_->terminate();
  }

 private:
  void read_errors() {
    char buffer[4096];
    while (errors_.valid()) {
      const ssize_t count = ::read(errors_.get(), buffer, sizeof buffer);
      if (count > 0) {
        lines_.add({buffer, static_cast<std::size_t>(count)});
        continue;
      }
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      errors_.reset();
    }
  }

  std::unique_ptr<ChildProcess> process_;
  base::UniqueFd errors_;
  LineSplitter lines_;
};

struct SpawnPlan {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  SpawnPlan(int stdio, int errors) {
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, stdio, 0);
    ::posix_spawn_file_actions_adddup2(&actions, stdio, 1);
    ::posix_spawn_file_actions_adddup2(&actions, errors, 2);
    ::posix_spawnattr_init(&attributes);
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setflags(&attributes,
                               static_cast<short>(POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF));
  }
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
};

// Everything that a forked child needs, made before the fork.
struct ForkPlan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  int stdio;
  int errors;
  int failure;  // receives errno if the program cannot be started
  pid_t parent;
};

// The child of a fork. This process has threads, so it may only make async-signal-safe calls: setsid, prctl, dup2,
// sigaction, sigprocmask, write, exec.
[[noreturn]] void exec_child(const ForkPlan& plan) {
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the parent died before the call above
  ::dup2(plan.stdio, STDIN_FILENO);
  ::dup2(plan.stdio, STDOUT_FILENO);
  ::dup2(plan.errors, STDERR_FILENO);
  struct sigaction by_default {};
  by_default.sa_handler = SIG_DFL;
  for (int signo = 1; signo < NSIG; ++signo) ::sigaction(signo, &by_default, nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(plan.program, plan.arguments, plan.environment);
  const int failed = errno;
  (void)!::write(plan.failure, &failed, sizeof failed);
  ::_exit(127);
}

// Starts a child that dies with this thread: posix_spawn() cannot order that. Returns 0 or an errno.
int spawn_bound(const char* program, char* const* arguments, char* const* environment, int stdio, int errors,
                pid_t* pid) {
  auto failure = base::make_pipe(0);
  if (!failure.ok()) return EMFILE;
  const ForkPlan plan{program, arguments, environment, stdio, errors, failure->second.get(), ::getpid()};
  // Not fork(): handlers that libraries have registered for it may take locks of other threads.
  *pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (*pid < 0) return errno;
  if (*pid == 0) exec_child(plan);
  failure->second.reset();
  int failed = 0;
  ssize_t count = 0;
  while ((count = ::read(failure->first.get(), &failed, sizeof failed)) < 0 && errno == EINTR) {
  }
  if (count != static_cast<ssize_t>(sizeof failed)) return 0;
  while (::waitpid(*pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return failed;
}

std::vector<char*> environment_without(const std::vector<std::string>& unset) {
  std::vector<char*> result;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    if (std::find(unset.begin(), unset.end(), name) == unset.end()) result.push_back(*entry);
  }
  result.push_back(nullptr);
  return result;
}

}  // namespace

void LineSplitter::add(std::string_view bytes) {
  for (const char c : bytes) {
    if (c != '\n') line_ += c;
    if (c == '\n' || line_.size() >= kLongestLine) {
      if (on_line_) on_line_(line_);
      line_.clear();
    }
  }
}

void LineSplitter::finish() {
  if (!line_.empty() && on_line_) on_line_(line_);
  line_.clear();
}

void ChildProcess::terminate() {
  if (pid_ != 0) ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGTERM, nullptr, 0);
}

// The child leads its process group. No other process can get that number before we reap the child.
void ChildProcess::terminate_group() {
  if (pid_ != 0) ::kill(-pid_, SIGTERM);
}

void ChildProcess::kill_group() {
  if (pid_ != 0) ::kill(-pid_, SIGKILL);
}

bool ChildProcess::reap() {
  if (pid_ == 0) return true;
  siginfo_t info{};
  const int rc = ::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED | WNOHANG);
  if (rc == 0 && info.si_pid == 0) return false;
  if (rc < 0 && errno == EINTR) return false;
  pid_ = 0;
  if (rc == 0) exit_status_ = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
  return true;
}

void ChildProcess::let_go() {
  pollfd end{pidfd_.get(), POLLIN, 0};
  (void)::poll(&end, 1, static_cast<int>(kEndGrace.count()));
  forget();
}

void ChildProcess::forget() {
  if (!reap()) pid_ = 0;
}

ChildProcess::~ChildProcess() {
  if (reap()) return;
  terminate();
  pollfd end{pidfd_.get(), POLLIN, 0};
  if (::poll(&end, 1, static_cast<int>(kChildTermGrace.count())) <= 0 || !reap()) {
    ::syscall(SYS_pidfd_send_signal, pidfd_.get(), SIGKILL, nullptr, 0);
    siginfo_t info{};
    while (::waitid(P_PIDFD, static_cast<id_t>(pidfd_.get()), &info, WEXITED) < 0 && errno == EINTR) {
    }
  }
}

base::Result<SpawnedChild> spawn_child(const std::string& program, const std::vector<std::string>& argv,
                                       const std::vector<std::string>& unset, ChildLife life) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair stdio, base::make_socketpair(SOCK_STREAM));
  MUSTER_ASSIGN_OR_RETURN(base::FdPair errors, base::make_pipe(0));
  MUSTER_RETURN_IF_ERROR(base::set_nonblocking(errors.first.get(), true));
  std::vector<char*> arguments;
  for (const std::string& arg : argv) arguments.push_back(const_cast<char*>(arg.c_str()));
  arguments.push_back(nullptr);
  const std::vector<char*> environment = environment_without(unset);
  const SpawnPlan plan(stdio.second.get(), errors.second.get());
  pid_t pid = 0;
  const int rc = life == ChildLife::kOfThisThread
                     ? spawn_bound(program.c_str(), arguments.data(), environment.data(), stdio.second.get(),
                                   errors.second.get(), &pid)
                     : ::posix_spawnp(&pid, program.c_str(), &plan.actions, &plan.attributes, arguments.data(),
                                      environment.data());
  if (rc != 0) return base::errno_error(rc, fmt::format("cannot start {}", program));
  // The kernel cannot reuse the pid before we reap it.
  base::UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd.valid()) {
    const int failed = errno;
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return base::errno_error(failed, fmt::format("cannot watch {}", program));
  }
  SpawnedChild child;
  child.process = std::make_unique<ChildProcess>(pid, std::move(pidfd));
  child.stdio = std::move(stdio.first);
  child.errors = std::move(errors.first);
  return child;
}

ChildProgram::ChildProgram(SpawnedChild child, Pump& pump, std::function<Failure(int, const std::string&)> read_failure)
    : child_(std::move(child)), pump_(pump), read_failure_(std::move(read_failure)) {}

// Peeks first, so that bytes after the end of the line stay in the socket for the next reader.
bool ChildProgram::read_line(std::string& output) {
  char buffer[16 * 1024];
  const ssize_t seen = ::recv(child_.stdio.get(), buffer, sizeof buffer, MSG_PEEK | MSG_DONTWAIT);
  if (seen < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (seen <= 0) {
    is_output_open_ = false;
    return true;
  }
  const std::string_view bytes(buffer, static_cast<std::size_t>(seen));
  const std::size_t line_end = bytes.find('\n');
  const std::size_t take = line_end == std::string_view::npos ? bytes.size() : line_end + 1;
  const ssize_t taken = ::recv(child_.stdio.get(), buffer, take, MSG_DONTWAIT);
  if (taken > 0) output.append(buffer, static_cast<std::size_t>(taken));
  return true;
}

bool ChildProgram::read_errors(std::string& errors) {
  char buffer[4096];
  const ssize_t count = ::read(child_.errors.get(), buffer, sizeof buffer);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  if (count <= 0) {
    are_errors_open_ = false;
    return true;
  }
  errors.append(buffer, static_cast<std::size_t>(count));
  if (all_errors_.size() < kKeptErrors) all_errors_.append(buffer, static_cast<std::size_t>(count));
  return true;
}

Failure ChildProgram::after_end() {
  has_ended_ = true;
  exit_status_ = child_.process->exit_status();
  return read_failure_ ? read_failure_(exit_status_, all_errors_) : Failure{};
}

bool ChildProgram::write_some(std::string_view& input) {
  if (input.empty()) return false;
  const ssize_t count = ::send(child_.stdio.get(), input.data(), std::min<std::size_t>(input.size(), 256 * 1024),
                               MSG_DONTWAIT | MSG_NOSIGNAL);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return false;
  // After an error the child no longer reads, so drop the input. The child's exit status tells why.
  input.remove_prefix(count < 0 ? input.size() : static_cast<std::size_t>(count));
  return true;
}

Failure ChildProgram::exchange(std::string_view& input, std::string& output, std::string& errors,
                               const Waiter& waiter) {
  for (;;) {
    bool is_progress = write_some(input);
    if (is_output_open_) is_progress = read_line(output) || is_progress;
    if (are_errors_open_) is_progress = read_errors(errors) || is_progress;
    if (is_progress) return {};
    if (!is_output_open_ && child_.process->reap()) {
      // A grandchild may hold stderr open, so read only what is available now.
      while (are_errors_open_ && read_errors(errors)) {
      }
      return after_end();
    }
    const pollfd fds[] = {{is_output_open_ ? child_.stdio.get() : child_.process->pidfd(),
                           static_cast<short>(input.empty() || !is_output_open_ ? POLLIN : POLLIN | POLLOUT), 0},
                          {are_errors_open_ ? child_.errors.get() : -1, POLLIN, 0}};
    if (Failure failure = wait_failure(waiter.wait(fds)); !failure.ok()) return failure;
  }
}

Failure ChildProgram::close_input(const Waiter& /*waiter*/) {
  ::shutdown(child_.stdio.get(), SHUT_WR);
  return {};
}

Failure ChildProgram::release(std::string_view input, std::function<void(const std::string& line)> on_stderr,
                              const Waiter& waiter, base::UniqueFd& stream) {
  while (!input.empty()) {
    if (write_some(input)) continue;
    const pollfd writable{child_.stdio.get(), POLLOUT, 0};
    if (Failure failure = wait_failure(waiter.wait({&writable, 1})); !failure.ok()) return failure;
  }
  const base::Status added = pump_.add(
      std::make_unique<ChildWatch>(std::move(child_.process), std::move(child_.errors), std::move(on_stderr)));
  if (!added.ok()) return {.kind = FailureKind::kSshFailed, .detail = added.message()};
  stream = std::move(child_.stdio);
  return {};
}

}  // namespace muster::launcherd::bootstrap
