// The whole of the sweep. Read sweep() at the end first, which calls the steps in order.
// Then read lock_dead_sessions(), Sweeper::find() and Sweeper::kill_strays().

#include "agent/strays/sweep.h"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>

#include "agent/proc/cgroup.h"
#include "agent/proc/descendant_notes.h"
#include "agent/proc/environ_scan.h"
#include "agent/proc/proc_table.h"
#include "agent/proc/session_dir.h"
#include "agent/proc/session_notes.h"
#include "agent/process/keepers.h"
#include "base/ids.h"

namespace muster::agent::inline strays {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSweepScanPause{2000};
constexpr milliseconds kLockPoll{20};
constexpr milliseconds kSweepKillBound{3000};
constexpr int kSweepMaxPollMs = 16;
constexpr milliseconds kKeepersEndJob{8000};  // the time that continued keepers get to end their job

// Returns the job's sessions whose agent and warden are gone, locked by us. The others go into the report.
base::Result<std::vector<FoundSession>> lock_dead_sessions(const std::string& job_id, const SweepOptions& options,
                                                           SweepReport& report) {
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> paths, list_sessions(options.session_root, job_id));
  std::vector<FoundSession> dead;
  auto deadline = Clock::now() + options.wait_for_lock;
  for (const std::string& path : paths) {
    while (true) {
      auto session = inspect_session(path);
      if (!session.ok() && !may_be_alive(session)) break;  // the session was just removed, or is not ours
      const bool is_free = session.ok() && !session->is_alive && (options.is_known_dead || session->lease_has_passed);
      if (is_free) {
        dead.push_back(std::move(*session));
        break;
      }
      if (Clock::now() > deadline) {
        report.alive.push_back(path);
        break;
      }
      if (session.ok() && session->is_alive) {
        for (const ProcessInfo& keeper : continue_stopped_keepers(path)) {
          report.continued.push_back(keeper);
          // The continued keeper ends its job if the job is over, so wait longer.
          if (session->lease_has_passed) deadline = Clock::now() + kKeepersEndJob;
        }
      }
      if (session.ok()) session->lock.reset();
      ::poll(nullptr, 0, static_cast<int>(kLockPoll.count()));
    }
  }
  return dead;
}

bool is_spared(const std::vector<pid_t>& spare, pid_t pid) {
  return std::ranges::find(spare, pid) != spare.end();
}

// Compares files and not names, because one directory can have several names, such as /tmp/x and /tmp//x.
bool is_same_file(const std::string& a, const std::string& b) {
  struct stat by_a {};
  struct stat by_b {};
  return a == b || (::stat(a.c_str(), &by_a) == 0 && ::stat(b.c_str(), &by_b) == 0 && by_a.st_ino == by_b.st_ino &&
                    by_a.st_dev == by_b.st_dev);
}

void add_new(std::vector<ProcessInfo>& found, const ProcessInfo& info) {
  const bool is_known = std::ranges::any_of(
      found, [&info](const ProcessInfo& old) { return old.pid == info.pid && old.start_time == info.start_time; });
  if (!is_known && !info.is_dead()) found.push_back(info);
}

class Sweeper {
 public:
  Sweeper(std::string job_id, SweepReport& report)
      : job_id_(std::move(job_id)), report_(report), spare_(ancestors(::getpid())) {}

  void kill_cgroup(const FoundSession& session);
  base::Status kill_strays(const std::vector<FoundSession>& dead, bool search_twice);

 private:
  base::Result<std::vector<ProcessInfo>> find(const std::vector<FoundSession>& dead) const;
  bool is_of_living_session(const std::string& session_dir, const std::vector<FoundSession>& dead) const;

  std::string job_id_;
  SweepReport& report_;
  std::vector<pid_t> spare_;
};

void Sweeper::kill_cgroup(const FoundSession& session) {
  for (const std::string& path : known_cgroups(session.path)) {
    const auto cgroup = Cgroup::open(path);
    if (!cgroup.ok()) continue;  // gone already
    for (const pid_t pid : cgroup->pids()) {
      if (const auto info = read_process(pid)) report_.killed.push_back({pid, info->command, "cgroup"});
    }
    const auto deadline = Clock::now() + kSweepKillBound;
    while (cgroup->is_populated() && Clock::now() < deadline) {
      if (!cgroup->kill()) {
        for (const pid_t pid : cgroup->pids()) {
          if (const auto info = read_process(pid)) signal_process(*info, SIGKILL);
        }
      }
      ::poll(nullptr, 0, 1);
    }
    for (const pid_t pid : cgroup->pids()) {
      if (const auto info = read_process(pid)) {
        report_.stuck.push_back({pid, info->command, info->state, wait_channel(pid)});
      }
    }
    if (cgroup->remove().ok()) report_.removed.push_back(path);
  }
}

// The locks say whether sessions under other roots live. Sessions whose lock we hold are dead.
bool Sweeper::is_of_living_session(const std::string& session_dir, const std::vector<FoundSession>& dead) const {
  if (std::ranges::find(report_.alive, session_dir) != report_.alive.end()) return true;
  const bool is_dead =
      std::ranges::any_of(dead, [&](const FoundSession& session) { return is_same_file(session.path, session_dir); });
  return !is_dead && may_be_living_session(session_dir, job_id_);
}

// Finds marked processes, their descendants, and what is left of the sessions of known ranks.
base::Result<std::vector<ProcessInfo>> Sweeper::find(const std::vector<FoundSession>& dead) const {
  MUSTER_ASSIGN_OR_RETURN(const EnvironScan scan, scan_environments(job_id_));
  const auto table = read_all_processes();
  std::vector<ProcessInfo> found;
  for (const MarkedProcess& process : scan.found) {
    if (is_spared(spare_, process.info.pid) || is_of_living_session(process.session_dir, dead)) continue;
    // A process that does not name its session may belong to a living one.
    if (process.session_dir.empty() && !report_.alive.empty()) continue;
    add_new(found, process.info);
    for (const ProcessInfo& below : descendants(table, process.info.pid, spare_)) add_new(found, below);
  }
  for (const FoundSession& session : dead) {
    for (const KnownRank& rank : known_ranks(session.path)) {
      for (const ProcessInfo& member : members_of_session(table, rank)) add_new(found, member);
    }
    for (const KnownRank& noted : noted_descendants(session.path)) {
      const auto there = std::ranges::find(table, noted.pid, &ProcessInfo::pid);
      if (there == table.end() || there->start_time != noted.not_before) continue;
      add_new(found, *there);
      for (const ProcessInfo& below : descendants(table, noted.pid, spare_)) add_new(found, below);
    }
  }
  std::erase_if(found, [this](const ProcessInfo& info) { return is_spared(spare_, info.pid); });
  return found;
}

base::Status Sweeper::kill_strays(const std::vector<FoundSession>& dead, bool search_twice) {
  MUSTER_ASSIGN_OR_RETURN(std::vector<ProcessInfo> found, find(dead));
  if (search_twice && !found.empty()) {
    ::poll(nullptr, 0, static_cast<int>(kSweepScanPause.count()));
    MUSTER_ASSIGN_OR_RETURN(const std::vector<ProcessInfo> again, find(dead));
    std::erase_if(found, [&again](const ProcessInfo& info) {
      return std::ranges::none_of(again, [&info](const ProcessInfo& other) {
        return other.pid == info.pid && other.start_time == info.start_time;
      });
    });
  }
  const auto deadline = Clock::now() + kSweepKillBound;
  int wait_ms = 1;
  // While a process runs execve, it shows no environment. So stop only after two searches that find nothing.
  for (int empty_scans = 0; empty_scans < 2 && Clock::now() < deadline;) {
    for (const ProcessInfo& info : found) {
      if (!signal_process(info, SIGKILL)) continue;
      const bool is_known = std::ranges::find(report_.killed, info.pid, &Leftover::pid) != report_.killed.end();
      if (!is_known) report_.killed.push_back({info.pid, info.command, "environment"});
    }
    ::poll(nullptr, 0, wait_ms);
    wait_ms = std::min(wait_ms * 2, kSweepMaxPollMs);
    MUSTER_ASSIGN_OR_RETURN(found, find(dead));
    empty_scans = found.empty() ? empty_scans + 1 : 0;
  }
  for (const ProcessInfo& info : found) {
    report_.stuck.push_back({info.pid, info.command, info.state, wait_channel(info.pid)});
  }
  return base::ok_status();
}

}  // namespace

base::Result<SweepReport> sweep(const std::string& job_id, const SweepOptions& options) {
  MUSTER_RETURN_IF_ERROR(base::JobId::parse(job_id).status());
  SweepReport report;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<FoundSession> dead, lock_dead_sessions(job_id, options, report));
  Sweeper sweeper(job_id, report);
  for (const FoundSession& session : dead) sweeper.kill_cgroup(session);
  MUSTER_RETURN_IF_ERROR(sweeper.kill_strays(dead, !options.is_known_dead));
  for (const FoundSession& session : dead) {
    MUSTER_RETURN_IF_ERROR(remove_session(session.path));
    report.removed.push_back(session.path);
  }
  return report;
}

}  // namespace muster::agent::strays
