#include "tests/unit/agent/process/agent_harness.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <iterator>

#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "base/file.h"
#include "base/ids.h"
#include "base/sanitizers.h"

namespace muster::agent::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

void become(uid_t uid) {
  if (uid == ::getuid()) return;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) {
    ADD_FAILURE() << "cannot become uid " << uid;
  }
}

int failures() {
  return ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
}

// Runs it in a forked child, where only new failures count.
[[noreturn]] void run_in_child(const std::function<void()>& scenario) {
  const int before = failures();
  scenario();
  std::fflush(nullptr);
  ::_exit(failures() > before ? 1 : 0);
}

template <typename Into>
void take(WardenEvent& event, Into& into) {
  using Event = typename Into::value_type;
  if (auto* one = std::get_if<Event>(&event)) into.push_back(std::move(*one));
}

}  // namespace

Playground::Playground() {
  fs::create_directory(session_root());
  fs::permissions(path(), fs::perms(0755));
  fs::permissions(session_root(), fs::perms(01777));
}

std::string Playground::victim(const std::string& name) const {
  const std::string to = dir_ / name;
  if (!fs::exists(to)) fs::copy_file(fs::path(MUSTER_TEST_PROGRAMS) / name, to);
  return to;
}

bool Playground::has_sessions() const {
  return !fs::is_empty(session_root());
}

int wait_status_of_agent(uid_t uid, const std::function<void()>& scenario) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  if (pid == 0) {
    run_in_child([&] {
      become(uid);
      scenario();
    });
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  return status;
}

void as_agent(uid_t uid, const std::function<void()>& scenario) {
  const int status = wait_status_of_agent(uid, scenario);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the agent's part failed, wait status " << status;
}

AgentChild::AgentChild(uid_t uid, const std::function<void(const std::function<void(pid_t)>&)>& scenario) {
  std::fflush(nullptr);
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return;
  pid_ = ::fork();
  if (pid_ == 0) {
    ::close(fds[0]);
    run_in_child([&] {
      become(uid);
      scenario([&fds](pid_t warden) {
        if (::write(fds[1], &warden, sizeof warden) < 0) ::_exit(9);
      });
    });
  }
  ::close(fds[1]);
  ready_fd_ = fds[0];
}

AgentChild::~AgentChild() {
  if (pid_ > 0) {
    kill_now();
    wait();
  }
  ::close(ready_fd_);
}

pid_t AgentChild::wait_until_ready() {
  pid_t warden = 0;
  return ::read(ready_fd_, &warden, sizeof warden) == sizeof warden ? warden : 0;
}

void AgentChild::kill_now() {
  ::kill(pid_, SIGKILL);
}

int AgentChild::wait() {
  int status = 0;
  if (pid_ > 0) ::waitpid(pid_, &status, 0);
  pid_ = 0;
  return status;
}

std::vector<pid_t> processes_with(const std::string& token) {
  std::vector<pid_t> found;
  for (const ProcessInfo& info : read_all_processes()) {
    if (info.is_dead() || info.pid == ::getpid()) continue;
    const auto line = base::read_file("/proc/" + std::to_string(info.pid) + "/cmdline");
    if (line.ok() && line->find(token) != std::string::npos) found.push_back(info.pid);
  }
  return found;
}

bool is_gone(pid_t pid) {
  const auto info = read_process(pid);
  return !info || info->is_dead();
}

bool stop_process(pid_t pid) {
  return ::kill(pid, SIGSTOP) == 0 && eventually(std::chrono::seconds(10), [pid] {
           const auto info = read_process(pid);
           return info && info->state == 'T';
         });
}

bool eventually(std::chrono::milliseconds bound, const std::function<bool()>& condition) {
  const auto deadline = Clock::now() + bound;
  while (!condition()) {
    if (Clock::now() > deadline) return condition();
    ::poll(nullptr, 0, 2);
  }
  return true;
}

std::size_t left_after(const std::string& token, std::chrono::milliseconds bound) {
  eventually(bound, [&token] { return processes_with(token).empty(); });
  const auto left = processes_with(token);
  for (const pid_t pid : left) {
    const auto info = read_process(pid);
    if (!info) continue;
    std::cout << "  left: pid " << pid << " " << info->command << " state " << info->state << " parent " << info->parent
              << " group " << info->group << " session " << info->session << "\n";
  }
  return left.size();
}

std::chrono::milliseconds gone_within() {
  double load = 0;
  const bool is_known = ::getloadavg(&load, 1) == 1;
  const double processors = static_cast<double>(::sysconf(_SC_NPROCESSORS_ONLN));
  const bool is_slow = base::kIsAddressSanitized || (is_known && load > 2 * processors);
  return is_slow ? std::chrono::seconds(20) : std::chrono::seconds(2);
}

Strays::~Strays() {
  for (const pid_t pid : pids_) {
    if (lives(pid)) ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

pid_t Strays::start(const std::vector<std::string>& env, const std::string& token, uid_t uid) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    std::vector<char*> environment;
    for (const std::string& entry : env) environment.push_back(const_cast<char*>(entry.c_str()));
    environment.push_back(nullptr);
    char* const arguments[] = {const_cast<char*>(program_.c_str()), const_cast<char*>(token.c_str()), nullptr};
    ::setsid();
    if (uid != ::getuid() && (::setgid(uid) != 0 || ::setuid(uid) != 0)) ::_exit(9);
    ::execve(program_.c_str(), arguments, environment.data());
    ::_exit(9);
  }
  EXPECT_TRUE(eventually(std::chrono::seconds(5), [&] { return !processes_with(token).empty(); }));
  pids_.push_back(pid);
  return pid;
}

bool Strays::lives(pid_t pid) {
  siginfo_t info{};
  return ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

std::size_t open_descriptors() {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()));
}

std::string new_job() {
  return base::JobId::random().str();
}

WardenOptions WardenFixture::options(ContainLevel level, const std::string& job) const {
  return {
      .job_id = job.empty() ? job_ : job, .agent_id = "0", .session_root = ground_.session_root(), .contain = level};
}

SpawnRequest request(int rank, std::vector<std::string> argv, const std::string& workdir) {
  SpawnRequest spawn;
  spawn.rank = rank;
  spawn.argv = std::move(argv);
  spawn.env = {"PATH=/usr/bin:/bin", "MUSTER_RANK=" + std::to_string(rank)};
  spawn.workdir = workdir;
  return spawn;
}

bool poll_until(Warden& warden, Seen& seen, const std::function<bool()>& condition, std::chrono::milliseconds bound) {
  const auto deadline = Clock::now() + bound;
  while (!condition()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wanted{warden.fd(), POLLIN, 0};
    if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) <= 0) return condition();
    auto events = warden.read_events();
    if (!events.ok()) return condition();
    for (WardenEvent& event : *events) {
      take(event, seen.started);
      take(event, seen.failed);
      take(event, seen.exited);
      take(event, seen.empty);
      take(event, seen.expired);
    }
  }
  return true;
}

bool read_until(int fd, const std::string& line) {
  std::string text;
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (text.find(line) == std::string::npos) {
    pollfd wanted{fd, POLLIN, 0};
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0 || ::poll(&wanted, 1, static_cast<int>(left)) <= 0) return false;
    char buffer[256];
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n <= 0) return false;
    text.append(buffer, static_cast<std::size_t>(n));
  }
  return true;
}

}  // namespace muster::agent::testing
