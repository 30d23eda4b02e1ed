#include "agent/strays/stray_rule.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace muster::agent::inline strays {
namespace {

constexpr std::string_view kWarden = "muster-warden";
constexpr auto kLaunchers = std::to_array<std::string_view>({"hvdrun", "muster", "launcherd", "muster-agent"});
constexpr auto kLogins = std::to_array<std::string_view>({"sshd", "sshd-session"});

// Launchers, agents and wardens. An agent has the name of its file, so it is found as the parent of a warden.
std::set<pid_t> find_keepers(const std::vector<ProcessInfo>& table) {
  std::set<pid_t> keepers;
  for (const ProcessInfo& info : table) {
    if (info.is_dead()) continue;
    if (std::ranges::find(kLaunchers, info.command) != kLaunchers.end()) keepers.insert(info.pid);
    if (!is_warden(info)) continue;
    keepers.insert(info.pid);
    if (info.parent > 1) keepers.insert(info.parent);
  }
  // A warden without its agent is a child of pid 1 or of the user's subreaper. The other children of these two do not
  // belong to a warden.
  for (const ProcessInfo& info : table) {
    if (info.command == "systemd" || info.command == "init") keepers.erase(info.pid);
  }
  return keepers;
}

std::set<pid_t> find_spared(const HostSight& sight) {
  std::set<pid_t> spared(sight.spared.begin(), sight.spared.end());
  for (const pid_t keeper : find_keepers(sight.table)) {
    spared.insert(keeper);
    for (const ProcessInfo& below : descendants(sight.table, keeper)) spared.insert(below.pid);
  }
  for (const ProcessInfo& info : sight.table) {
    if (std::ranges::find(kLogins, info.command) != kLogins.end()) spared.insert(info.pid);
  }
  return spared;
}

class Search {
 public:
  explicit Search(const HostSight& sight) : sight_(sight), spared_(find_spared(sight)) {}

  std::vector<Stray> run();

 private:
  bool is_dead_job(const std::string& job_id) const;
  void consider(const ProcessInfo& info, const std::string& job_id, std::string_view found_by);
  void add_descendants();

  const HostSight& sight_;
  const std::set<pid_t> spared_;
  std::vector<Stray> found_;
  std::set<pid_t> known_;  // pids of found_
};

bool Search::is_dead_job(const std::string& job_id) const {
  const auto job = sight_.jobs.find(job_id);
  return job != sight_.jobs.end() && job->second == JobState::kDead;
}

void Search::consider(const ProcessInfo& info, const std::string& job_id, std::string_view found_by) {
  if (info.is_dead() || info.pid <= 1 || known_.contains(info.pid) || spared_.contains(info.pid)) return;
  if (!sight_.own.contains(info.pid) || sight_.unreadable.contains(info.pid) || !is_dead_job(job_id)) return;
  // The job in its own environment comes first, because a job inside a job may live.
  const auto mark = sight_.marked.find(info.pid);
  if (mark != sight_.marked.end() && mark->second != job_id) return;
  if (mark == sight_.marked.end() && !sight_.all_read) return;
  known_.insert(info.pid);
  found_.push_back({info, job_id, std::string(found_by)});
}

void Search::add_descendants() {
  std::multimap<pid_t, const ProcessInfo*> children;
  for (const ProcessInfo& info : sight_.table) children.emplace(info.parent, &info);
  for (std::size_t i = 0; i < found_.size(); ++i) {  // consider() appends to found_ during this loop
    const Stray parent = found_[i];
    const auto [first, last] = children.equal_range(parent.info.pid);
    for (auto child = first; child != last; ++child) {
      // The snapshot is not atomic. An older child belongs to another process that had the pid before.
      if (child->second->start_time < parent.info.start_time) continue;
      consider(*child->second, parent.job_id, "descendant");
    }
  }
}

std::vector<Stray> Search::run() {
  for (const ProcessInfo& info : sight_.table) {
    const auto mark = sight_.marked.find(info.pid);
    if (mark != sight_.marked.end()) consider(info, mark->second, "environment");
  }
  for (const Claim& claim : sight_.claims) {
    for (const ProcessInfo& info : sight_.table) {
      if (claim.in_cgroup.contains(info.pid)) consider(info, claim.job_id, "cgroup");
    }
    for (const KnownRank& rank : claim.ranks) {
      for (const ProcessInfo& info : members_of_session(sight_.table, rank)) consider(info, claim.job_id, "session");
    }
    for (const KnownRank& noted : claim.noted) {
      for (const ProcessInfo& info : sight_.table) {
        if (info.pid == noted.pid && info.start_time == noted.not_before) consider(info, claim.job_id, "note");
      }
    }
  }
  add_descendants();
  return std::move(found_);
}

}  // namespace

bool is_warden(const ProcessInfo& info) {
  return info.command == kWarden;
}

JobState judge_job(const std::vector<SessionSight>& sessions) {
  if (std::ranges::any_of(sessions, &SessionSight::is_locked)) return JobState::kLives;
  return std::ranges::all_of(sessions, &SessionSight::lease_has_passed) ? JobState::kDead : JobState::kLeaseRuns;
}

std::vector<Stray> find_strays(const HostSight& sight) {
  return Search(sight).run();
}

std::vector<Stray> seen_twice(const std::vector<Stray>& first, const std::vector<Stray>& second) {
  std::vector<Stray> both;
  for (const Stray& stray : second) {
    const bool is_same = std::ranges::any_of(first, [&stray](const Stray& before) {
      return before.info.pid == stray.info.pid && before.info.start_time == stray.info.start_time &&
             before.job_id == stray.job_id;
    });
    if (is_same) both.push_back(stray);
  }
  return both;
}

}  // namespace muster::agent::strays
