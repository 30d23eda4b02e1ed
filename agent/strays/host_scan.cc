// One search of a host, in class HostScanner. Read HostScanner::run() first, which calls the steps in order.
// Then read read_processes(), add_session() and find_stray_files(). stray_rule.cc decides which processes are strays.

#include "agent/strays/host_scan.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <set>

#include "agent/proc/cgroup.h"
#include "agent/proc/descendant_notes.h"
#include "agent/proc/environ_scan.h"
#include "base/env.h"
#include "base/file.h"

namespace muster::agent::inline strays {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr milliseconds kScanTime{8000};
// A session younger than this may not be locked yet. An agent locks its session within a small part of this time.
constexpr milliseconds kYoung{1000};

// The time since something was last made in the directory, such as its lock file.
milliseconds age_of(const std::string& session_path) {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  struct stat info {};
  ::lstat(session_path.c_str(), &info);  // if the session is gone by now, the age does not matter
  return milliseconds((now.tv_sec - info.st_mtim.tv_sec) * 1000 + (now.tv_nsec - info.st_mtim.tv_nsec) / 1'000'000);
}

bool is_young(milliseconds age) {
  return age > -kYoung && age < kYoung;  // a time far in the future means a wrong clock
}

bool exists(const std::string& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0;
}

class HostScanner {
 public:
  explicit HostScanner(const HostScanOptions& options) : options_(options) {}
  base::Result<HostScan> run();

 private:
  base::Status read_processes();
  void add_session(const std::string& job_id, const std::string& path, bool is_visible);
  void find_sessions();
  void judge_jobs();
  void claim(const SeenSession& session);
  void keep_dead_sessions();
  void find_stray_files();
  bool is_asked_for(const std::string& job_id) const { return job_id.starts_with(options_.job_prefix); }

  const HostScanOptions& options_;
  HostScan scan_;
  HostSight sight_;
  std::vector<MarkedProcess> marked_;
  std::set<std::string> inspected_;  // paths of sessions
  std::vector<SeenSession> sessions_;
  std::map<std::string, std::vector<SessionSight>> by_job_;
};

base::Status HostScanner::read_processes() {
  ScanLimits limits;
  limits.total = kScanTime;
  MUSTER_ASSIGN_OR_RETURN(EnvironScan scan, scan_all_jobs(limits));
  sight_.table = read_all_processes();
  sight_.spared = ancestors(::getpid());
  sight_.all_read = scan.is_complete;
  sight_.unreadable.insert(scan.unreadable.begin(), scan.unreadable.end());
  if (!scan.is_complete) {
    scan_.problems.push_back(fmt::format("the search of /proc took longer than {} s and was not completed",
                                         std::chrono::duration_cast<seconds>(kScanTime).count()));
  }
  for (const ProcessInfo& info : sight_.table) {
    if (is_of_user(info.pid, ::getuid())) sight_.own.insert(info.pid);
    // An unreadable process may be a stray. On a loaded host a process may also be just slow. So report only processes
    // that hang in the kernel.
    if (sight_.unreadable.contains(info.pid) && info.state == 'D') {
      scan_.problems.push_back(fmt::format("pid {} ({}) hangs in the kernel{}{}: its environment cannot be read",
                                           info.pid, info.command, wait_channel(info.pid).empty() ? "" : " in ",
                                           wait_channel(info.pid)));
    }
  }
  for (MarkedProcess& process : scan.found) {
    const auto now = std::ranges::lower_bound(sight_.table, process.info.pid, {}, &ProcessInfo::pid);
    const bool is_there = now != sight_.table.end() && now->pid == process.info.pid;
    if (is_there && now->start_time == process.info.start_time) {
      sight_.marked[process.info.pid] = process.job_id;
      marked_.push_back(std::move(process));
    } else if (is_there) {
      // The pid now belongs to another process, of which nothing is known.
      sight_.unreadable.insert(process.info.pid);
    }
  }
  return base::ok_status();
}

// Adds a session. `is_visible` is false if its directory exists only in the mount namespace of another process. The
// scan then uses the session only to find out whether the job is alive.
void HostScanner::add_session(const std::string& job_id, const std::string& path, bool is_visible) {
  if (!inspected_.insert(path).second) return;
  const milliseconds age = age_of(path);
  const bool is_ours = std::ranges::find(options_.locked_by_us, path) != options_.locked_by_us.end();
  SeenSession seen{.job_id = job_id, .found = {}, .age = std::chrono::duration_cast<seconds>(age)};
  seen.found.path = path;
  if (is_ours) {
    by_job_[job_id].push_back({.is_locked = false, .lease_has_passed = true});
    sessions_.push_back(std::move(seen));
  } else if (is_young(age)) {
    by_job_[job_id].push_back({.is_locked = false, .lease_has_passed = false});
    scan_.lease_left[job_id] = std::max(scan_.lease_left[job_id], kYoung);
  } else if (auto found = inspect_session(path); found.ok()) {
    by_job_[job_id].push_back({.is_locked = found->is_alive, .lease_has_passed = found->lease_has_passed});
    if (!found->lease_has_passed) scan_.lease_left[job_id] = std::max(scan_.lease_left[job_id], found->lease_left);
    seen.found = std::move(*found);
    if (is_visible) sessions_.push_back(std::move(seen));
  } else if (may_be_alive(found) && exists(path)) {
    // If the lock cannot be read, the session may be alive.
    by_job_[job_id].push_back({.is_locked = true, .lease_has_passed = false});
    scan_.problems.push_back(found.status().message());
  }
}

// Finds the sessions under the root, then those that a process names. The latter may lie under another root, or be
// visible only to that process.
void HostScanner::find_sessions() {
  const base::Status root = check_session_root(options_.session_root);
  if (!root.ok()) scan_.problems.push_back(root.message());
  const auto listed = list_all_sessions(options_.session_root);
  if (!listed.ok()) scan_.problems.push_back(listed.status().message());
  for (const std::string& path : listed.ok() ? *listed : std::vector<std::string>()) {
    add_session(job_of_session(path), path, true);
  }
  for (const MarkedProcess& process : marked_) {
    const std::string& path = process.session_dir;
    // Any process can set the variable, and the sweep may remove the directory that it names. So accept only a path
    // whose place and name are those of a session.
    if (!path.starts_with('/') || job_of_session(path) != process.job_id) continue;
    if (!is_session_root(std::string_view(path).substr(0, path.rfind('/')))) continue;
    if (exists(path)) {
      add_session(process.job_id, path, true);
      continue;
    }
    const std::string inside = fmt::format("/proc/{}/root{}", process.info.pid, path);
    if (exists(inside)) add_session(process.job_id, inside, false);
  }
}

void HostScanner::judge_jobs() {
  for (const auto& [pid, job_id] : sight_.marked) by_job_.try_emplace(job_id);
  for (const auto& [job_id, sessions] : by_job_) sight_.jobs[job_id] = judge_job(sessions);
}

void HostScanner::claim(const SeenSession& session) {
  Claim claim{.job_id = session.job_id, .ranks = known_ranks(session.found.path), .in_cgroup = {}};
  claim.noted = noted_descendants(session.found.path);
  for (const std::string& path : known_cgroups(session.found.path)) {
    const auto cgroup = Cgroup::open(path);
    if (!cgroup.ok()) continue;  // gone already
    for (const pid_t pid : cgroup->pids()) claim.in_cgroup.insert(pid);
  }
  sight_.claims.push_back(std::move(claim));
}

void HostScanner::keep_dead_sessions() {
  for (SeenSession& session : sessions_) {
    if (sight_.jobs[session.job_id] != JobState::kDead || !is_asked_for(session.job_id)) continue;
    claim(session);
    scan_.sessions.push_back(std::move(session));
  }
}

void HostScanner::find_stray_files() {
  std::vector<std::string> directories{session_root(options_.session_root)};
  if (const auto runtime = base::env_var("XDG_RUNTIME_DIR"); runtime && runtime->starts_with('/')) {
    directories.push_back(*runtime + "/muster");
  }
  scan_.files = find_abandoned_sockets(directories);
  // A job may live under a root that we do not know. Then there are more wardens than locked sessions. In that case, a
  // file without a session that we can see may belong to that job.
  const auto wardens = std::ranges::count_if(sight_.table, [this](const ProcessInfo& info) {
    return is_warden(info) && !info.is_dead() && sight_.own.contains(info.pid);
  });
  const auto living = std::ranges::count_if(sessions_, [](const SeenSession& each) { return each.found.is_alive; });
  std::vector<StrayFile> others = find_shared_memory(options_.shared_memory);
  const auto mountinfo = base::read_file("/proc/self/mountinfo");
  if (mountinfo.ok()) {
    for (StrayFile& file : find_empty_cgroups(cgroup_root(*mountinfo))) others.push_back(std::move(file));
  }
  for (StrayFile& file : others) {
    const auto job = sight_.jobs.find(file.job_id);
    const bool is_left = job == sight_.jobs.end() ? wardens <= living : job->second == JobState::kDead;
    if (is_left) scan_.files.push_back(std::move(file));
  }
  std::erase_if(scan_.files, [this](const StrayFile& file) { return !is_asked_for(file.job_id); });
}

base::Result<HostScan> HostScanner::run() {
  MUSTER_RETURN_IF_ERROR(read_processes());
  find_sessions();
  judge_jobs();
  find_stray_files();
  keep_dead_sessions();
  scan_.strays = find_strays(sight_);
  std::erase_if(scan_.strays, [this](const Stray& stray) { return !is_asked_for(stray.job_id); });
  for (const auto& [job_id, state] : sight_.jobs) {
    if (is_asked_for(job_id)) scan_.jobs[job_id] = state;
  }
  std::erase_if(scan_.lease_left, [this](const auto& entry) {
    const auto job = scan_.jobs.find(entry.first);
    return job == scan_.jobs.end() || job->second != JobState::kLeaseRuns;
  });
  return std::move(scan_);
}

}  // namespace

base::Result<HostScan> scan_host(const HostScanOptions& options) {
  return HostScanner(options).run();
}

}  // namespace muster::agent::strays
