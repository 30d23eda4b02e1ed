// The whole of the cleanup, in class Cleaner. Read Cleaner::run() at the end first, which calls the other steps.
// Then read confirm(), kill_strays(), settle(), remove_sessions() and remove_stray_files(), in this order.

#include "agent/strays/cleanup.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <set>

#include "agent/proc/cgroup.h"
#include "agent/process/keepers.h"

namespace muster::agent::inline strays {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kCleanupScanPause{2000};
constexpr int kMaxScans = 4;  // number of searches after the first one
constexpr milliseconds kCleanupKillBound{5000};
constexpr int kCleanupMaxPollMs = 16;

RemainsKind kind_of(StrayFileKind kind) {
  switch (kind) {
    case StrayFileKind::kSocket:
      return RemainsKind::kSocket;
    case StrayFileKind::kCgroup:
      return RemainsKind::kCgroup;
    case StrayFileKind::kSharedMemory:
      return RemainsKind::kSharedMemory;
  }
  return RemainsKind::kSocket;
}

std::string how_found(StrayFileKind kind) {
  switch (kind) {
    case StrayFileKind::kSocket:
      return "nobody listens";
    case StrayFileKind::kCgroup:
      return "empty";
    case StrayFileKind::kSharedMemory:
      return "name";
  }
  return "";
}

Remains remains_of(const Stray& stray) {
  static const auto kSecond = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  const std::uint64_t now = ticks_since_boot();
  const std::uint64_t age = now > stray.info.start_time ? (now - stray.info.start_time) / kSecond : 0;
  Remains remains{.kind = RemainsKind::kProcess, .job_id = stray.job_id, .name = stray.info.command};
  remains.pid = stray.info.pid;
  remains.start_time = stray.info.start_time;
  remains.age = seconds(age);
  remains.found_by = stray.found_by;
  return remains;
}

bool has(const std::vector<StrayFile>& files, const StrayFile& wanted) {
  return std::ranges::any_of(
      files, [&wanted](const StrayFile& file) { return file.kind == wanted.kind && file.path == wanted.path; });
}

bool is_dead(const HostScan& scan, const std::string& job_id) {
  const auto job = scan.jobs.find(job_id);
  return job != scan.jobs.end() && job->second == JobState::kDead;
}

// Returns the jobs for which only the second search found strays. Between the searches a lease has expired, or a
// process has started.
std::set<std::string> new_in(const HostScan& first, const HostScan& second) {
  std::set<std::string> jobs;
  for (const Stray& stray : second.strays) {
    if (seen_twice(first.strays, {stray}).empty()) jobs.insert(stray.job_id);
  }
  for (const SeenSession& session : second.sessions) {
    if (!is_dead(first, session.job_id)) jobs.insert(session.job_id);
  }
  for (const StrayFile& file : second.files) {
    if (!has(first.files, file)) jobs.insert(file.job_id);
  }
  return jobs;
}

class Cleaner {
 public:
  explicit Cleaner(const CleanupOptions& options) : options_(options) {}
  base::Result<CleanupReport> run();

 private:
  void confirm(const HostScan& first, HostScan second);
  void add_new(const std::vector<Stray>& strays);
  base::Status kill_strays();
  void settle(const std::vector<Stray>& left);
  void remove_sessions();
  void remove_stray_files();
  void finish(RemainsKind kind, const std::string& path, const base::Status& removed);
  void describe_others(const HostScan& scan);

  const CleanupOptions& options_;
  CleanupReport report_;
  std::vector<SeenSession> sessions_;  // locked by us
  std::vector<Stray> strays_;
  std::vector<StrayFile> files_;
};

// Keeps as strays only what both searches found.
void Cleaner::confirm(const HostScan& first, HostScan second) {
  strays_ = seen_twice(first.strays, second.strays);
  for (SeenSession& session : second.sessions) {
    const bool was_there = std::ranges::any_of(
        first.sessions, [&session](const SeenSession& before) { return before.found.path == session.found.path; });
    if (!was_there || !is_dead(first, session.job_id)) continue;
    Remains remains{.kind = RemainsKind::kSession, .job_id = session.job_id, .name = session.found.path};
    remains.age = session.age;
    remains.found_by = "no lock";
    report_.remains.push_back(std::move(remains));
    sessions_.push_back(std::move(session));
  }
  for (StrayFile& file : second.files) {
    if (!has(first.files, file)) continue;
    Remains remains{.kind = kind_of(file.kind), .job_id = file.job_id, .name = file.path};
    remains.age = file.age;
    remains.found_by = how_found(file.kind);
    report_.remains.push_back(std::move(remains));
    files_.push_back(std::move(file));
  }
  add_new(strays_);
}

void Cleaner::add_new(const std::vector<Stray>& strays) {
  for (const Stray& stray : strays) {
    const bool is_known = std::ranges::any_of(report_.remains, [&stray](const Remains& known) {
      return known.pid == stray.info.pid && known.start_time == stray.info.start_time;
    });
    if (!is_known) report_.remains.push_back(remains_of(stray));
  }
}

// Each round pins the targets, searches again, and kills those that are still the same strays. It also kills strays
// that started between two rounds, because their jobs were found dead twice.
base::Status Cleaner::kill_strays() {
  std::set<std::string> jobs;
  for (const Stray& stray : strays_) jobs.insert(stray.job_id);
  for (const SeenSession& session : sessions_) jobs.insert(session.job_id);
  HostScanOptions again = options_.scan;
  for (const SeenSession& session : sessions_) again.locked_by_us.push_back(session.found.path);
  const auto deadline = Clock::now() + kCleanupKillBound;
  int wait_ms = 1;
  std::vector<Stray> targets = strays_;
  // While a process runs execve, it shows no environment. So stop only after two searches that find nothing.
  for (int empty_scans = 0; empty_scans < 2 && Clock::now() < deadline;) {
    std::vector<base::UniqueFd> pidfds;
    for (const Stray& target : targets) pidfds.push_back(open_pidfd(target.info.pid));
    MUSTER_ASSIGN_OR_RETURN(HostScan scan, scan_host(again));
    std::erase_if(scan.strays, [&jobs](const Stray& stray) { return !jobs.contains(stray.job_id); });
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (seen_twice({targets[i]}, scan.strays).empty()) continue;
      if (pidfds[i].valid()) {
        send_by_pidfd(pidfds[i].get(), SIGKILL);
      } else {
        signal_process(targets[i].info, SIGKILL);
      }
    }
    add_new(scan.strays);
    empty_scans = scan.strays.empty() ? empty_scans + 1 : 0;
    targets = std::move(scan.strays);
    ::poll(nullptr, 0, wait_ms);
    wait_ms = std::min(wait_ms * 2, kCleanupMaxPollMs);
  }
  settle(targets);
  return base::ok_status();
}

// Sets the final state of each process in the report. It is kLeft if the last search found it and it still lives,
// otherwise kGone.
void Cleaner::settle(const std::vector<Stray>& left) {
  for (Remains& remains : report_.remains) {
    if (remains.kind != RemainsKind::kProcess) continue;
    remains.state = RemainsState::kGone;
    for (const Stray& stray : left) {
      if (stray.info.pid != remains.pid || stray.info.start_time != remains.start_time) continue;
      const auto now = read_process(remains.pid);
      if (!now || now->start_time != remains.start_time || now->is_dead()) continue;
      const std::string where = wait_channel(remains.pid);
      remains.state = RemainsState::kLeft;
      remains.problem =
          fmt::format("cannot be killed: state {}{}{}", now->state, where.empty() ? "" : ", waits in ", where);
    }
  }
}

void Cleaner::finish(RemainsKind kind, const std::string& path, const base::Status& removed) {
  const auto remains = std::ranges::find_if(
      report_.remains, [&](const Remains& each) { return each.kind == kind && each.name == path; });
  if (remains == report_.remains.end()) return;
  remains->state = removed.ok() ? RemainsState::kGone : RemainsState::kLeft;
  if (!removed.ok()) remains->problem = removed.message();
}

// Removes the sessions, except those of jobs that still have a process, because a later cleanup needs their notes.
void Cleaner::remove_sessions() {
  for (SeenSession& session : sessions_) {
    const bool has_process = std::ranges::any_of(report_.remains, [&session](const Remains& each) {
      return each.kind == RemainsKind::kProcess && each.state == RemainsState::kLeft && each.job_id == session.job_id;
    });
    base::Status removed = base::failed_precondition("kept while a process of the job is left");
    if (!has_process) {
      for (const std::string& path : known_cgroups(session.found.path)) {
        const StrayFile file{.kind = StrayFileKind::kCgroup, .job_id = session.job_id, .path = path};
        if (has(files_, file)) continue;  // remove_stray_files() removes it, because the search found it empty
        if (const auto status = remove_stray_file(file); !status.ok()) report_.problems.push_back(status.message());
      }
      removed = remove_session(session.found.path);
    }
    finish(RemainsKind::kSession, session.found.path, removed);
    session.found.lock.reset();
  }
}

void Cleaner::remove_stray_files() {
  for (const StrayFile& file : files_) finish(kind_of(file.kind), file.path, remove_stray_file(file));
  // Remove an empty root. This fails while a session is in it, which is right.
  for (const std::string& root : session_roots(options_.scan.session_root)) ::rmdir(root.c_str());
}

void Cleaner::describe_others(const HostScan& scan) {
  for (const auto& [job_id, state] : scan.jobs) {
    if (state == JobState::kLives) report_.alive_jobs.push_back(job_id);
    const auto left = scan.lease_left.find(job_id);
    if (left != scan.lease_left.end()) report_.waiting_jobs.push_back({job_id, left->second});
  }
  report_.problems = scan.problems;
}

base::Result<CleanupReport> Cleaner::run() {
  if (!options_.dry_run) end_stopped_sessions(options_.scan.session_root);
  MUSTER_ASSIGN_OR_RETURN(HostScan first, scan_host(options_.scan));
  for (SeenSession& session : first.sessions) session.found.lock.reset();
  if (first.strays.empty() && first.sessions.empty() && first.files.empty()) {
    describe_others(first);
    return std::move(report_);
  }
  HostScan second;
  for (int scans = 1;; ++scans) {
    ::poll(nullptr, 0, static_cast<int>(kCleanupScanPause.count()));
    MUSTER_ASSIGN_OR_RETURN(second, scan_host(options_.scan));
    const std::set<std::string> unconfirmed = new_in(first, second);
    if (unconfirmed.empty()) break;
    if (scans == kMaxScans) {
      for (const std::string& job_id : unconfirmed) report_.waiting_jobs.push_back({job_id, milliseconds(0)});
      break;
    }
    first = std::move(second);
    for (SeenSession& session : first.sessions) session.found.lock.reset();
  }
  describe_others(second);
  confirm(first, std::move(second));
  if (options_.dry_run) return std::move(report_);
  MUSTER_RETURN_IF_ERROR(kill_strays());
  remove_sessions();
  remove_stray_files();
  return std::move(report_);
}

}  // namespace

base::Result<CleanupReport> clean_up(const CleanupOptions& options) {
  return Cleaner(options).run();
}

}  // namespace muster::agent::strays
