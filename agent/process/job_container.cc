#include "agent/process/job_container.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>

namespace muster::agent::inline process {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMaxWaitMs = 8;
// From this round on, assume that processes fork as fast as they are killed, and stop them first.
constexpr int kStormRound = 2;

bool contains(const std::vector<Member>& members, const ProcessInfo& info) {
  return std::ranges::any_of(members, [&info](const Member& member) {
    return member.info.pid == info.pid && member.info.start_time == info.start_time;
  });
}

bool has_no_children() {
  siginfo_t info{};
  return ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0 && errno == ECHILD;
}

}  // namespace

JobContainer::JobContainer(std::optional<Cgroup> cgroup, bool is_namespace_init, std::vector<pid_t> spare)
    : cgroup_(std::move(cgroup)), is_namespace_init_(is_namespace_init), spare_(std::move(spare)) {}

bool JobContainer::is_empty() const {
  if (cgroup_ && cgroup_->is_populated()) return false;
  return spare_.empty() ? has_no_children() : members().empty();
}

std::vector<Member> JobContainer::members() const {
  std::vector<Member> found;
  const auto table = read_all_processes();
  const pid_t self = ::getpid();
  if (is_namespace_init_) {
    for (const ProcessInfo& info : table) {
      if (info.pid != self) found.push_back({info, "pid namespace"});
    }
    return found;
  }
  for (ProcessInfo& info : descendants(table, self, spare_)) found.push_back({std::move(info), "descendant"});
  if (!cgroup_) return found;
  for (const pid_t pid : cgroup_->pids()) {
    const auto known = std::ranges::find(found, pid, [](const Member& member) { return member.info.pid; });
    if (known != found.end()) continue;
    if (auto info = read_process(pid)) found.push_back({std::move(*info), "cgroup"});
  }
  return found;
}

void JobContainer::signal_all(int signo) const {
  if (is_namespace_init_) {
    ::kill(-1, signo);  // signals the whole namespace except this process
    return;
  }
  for (const Member& member : members()) signal_process(member.info, signo);
}

void JobContainer::pause(bool on) const {
  if (cgroup_ && cgroup_->freeze(on)) return;
  signal_all(on ? SIGSTOP : SIGCONT);
}

void JobContainer::kill_once(const std::vector<Member>& members, int round) const {
  if (cgroup_) cgroup_->kill();
  if (is_namespace_init_) {
    ::kill(-1, SIGKILL);
    return;
  }
  if (round >= kStormRound) {
    for (const Member& member : members) signal_process(member.info, SIGSTOP);
  }
  for (const Member& member : members) signal_process(member.info, SIGKILL);
}

KillReport kill_everything(const JobContainer& container, std::chrono::milliseconds bound,
                           const std::function<void(const std::vector<Member>&)>& reap) {
  KillReport report;
  const auto deadline = Clock::now() + bound;
  int wait_ms = 1;
  for (int round = 0;; ++round) {
    auto members = container.members();
    reap(members);
    if (members.empty()) return report;
    for (const Member& member : members) {
      if (!member.info.is_dead() && !contains(report.killed, member.info)) report.killed.push_back(member);
    }
    if (Clock::now() > deadline) break;
    container.kill_once(members, round);
    // Pause before the next round, because the kernel needs some hundred microseconds to end a process.
    ::poll(nullptr, 0, wait_ms);
    wait_ms = std::min(wait_ms * 2, kMaxWaitMs);
  }
  for (const Member& member : container.members()) {
    const ProcessInfo& info = member.info;
    if (!info.is_dead()) report.stuck.push_back({info.pid, info.command, info.state, wait_channel(info.pid)});
  }
  return report;
}

}  // namespace muster::agent::process
