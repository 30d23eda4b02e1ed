// Decides which processes of a host are strays. Every search that does not know which job is over uses this rule. Pure:
// host_scan.h collects its input as plain values.
//
// Job: a job lives while a process holds the lock of one of its sessions. It also lives until the last lease written
// in them has passed.
// Process: it belongs to the job that MUSTER_JOB_ID in its environment names. Without that variable, the cgroup or
// the ranks that a job's session has noted decide. Descendants of such a process belong to its job, too.
// Stray: a process is a stray if its job is dead, and was dead in two searches (seen_twice).
#pragma once

#include <sys/types.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/proc/session_notes.h"

namespace muster::agent::inline strays {

enum class JobState { kDead, kLeaseRuns, kLives };

struct SessionSight {
  bool is_locked = false;  // the session's agent or warden lives
  bool lease_has_passed = true;
};

// Returns the state of a job with these sessions. A job without sessions is dead.
JobState judge_job(const std::vector<SessionSight>& sessions);

// The notes of one job's session.
struct Claim {
  std::string job_id;
  std::vector<KnownRank> ranks;
  std::set<pid_t> in_cgroup;
  std::vector<KnownRank> noted = {};  // descendants that had left the ranks' session; start times are exact
};

struct HostSight {
  std::vector<ProcessInfo> table;       // processes of all users
  std::set<pid_t> own;                  // the processes of our uid
  std::map<pid_t, std::string> marked;  // the job that a process's environment names
  std::set<pid_t> unreadable;           // processes whose environment could not be read; never candidates
  // If false, a process that is not in `marked` may still have a job in its environment.
  bool all_read = true;
  std::vector<pid_t> spared;  // the caller and its ancestors
  std::vector<Claim> claims;
  // All jobs that a process or a claim names. A job that is missing here lives.
  std::map<std::string, JobState> jobs;
};

struct Stray {
  ProcessInfo info;
  std::string job_id;
  std::string found_by;  // "environment", "cgroup", "session", "note" or "descendant"
};

// Returns the strays of one search. It never returns `spared`, sshd, or launchers, agents and wardens with their
// descendants. It also never returns a process whose environment names a job that is not dead.
std::vector<Stray> find_strays(const HostSight& sight);

// Returns the strays of `second` that `first` contains, too: the same process (pid and start time) of the same job.
std::vector<Stray> seen_twice(const std::vector<Stray>& first, const std::vector<Stray>& second);

bool is_warden(const ProcessInfo& info);

}  // namespace muster::agent::strays
