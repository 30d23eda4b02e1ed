// Which processes of a host are strays: the decision of every search that does not know which job is over. Pure; what
// was seen comes in as plain values (host_look.h collects them).
//
// A job lives while somebody holds the lock of one of its sessions, and until the last lease written in one has passed.
// A process is attributed to a job by MUSTER_JOB_ID in its environment; without one of its own, by the cgroup or the
// ranks that the job's session has noted, or by descent from such a process. It is a stray when that job is dead, and
// was so twice (seen_twice).
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
  bool is_locked = false;  // agent or warden lives
  bool lease_has_passed = true;
};

// No session at all: dead.
JobState judge_job(const std::vector<SessionSight>& sessions);

// What the session of a job has noted.
struct Claim {
  std::string job_id;
  std::vector<KnownRank> ranks;
  std::set<pid_t> in_cgroup;
  std::vector<KnownRank> noted = {};  // descendants that had left the ranks' session; start times are exact
};

struct HostSight {
  std::vector<ProcessInfo> table;       // of all users
  std::set<pid_t> own;                  // those of our uid
  std::map<pid_t, std::string> marked;  // the job that the environment names
  std::set<pid_t> unreadable;           // their environment could not be read: never candidates
  bool all_read = true;                 // false: who is not in `marked` may yet be
  std::vector<pid_t> spared;            // the caller and its ancestors
  std::vector<Claim> claims;
  std::map<std::string, JobState> jobs;  // each that a process or a claim names; one that is missing lives
};

struct Stray {
  ProcessInfo info;
  std::string job_id;
  std::string found_by;  // "environment", "cgroup", "session", "note", "descendant"
};

// Never candidates: `spared`, sshd, launchers, agents and wardens, whatever is below one of those three, and a process
// whose environment names a job that is not dead.
std::vector<Stray> find_strays(const HostSight& sight);

// Those of `second` that `first` has as the same process (pid and start time) of the same job.
std::vector<Stray> seen_twice(const std::vector<Stray>& first, const std::vector<Stray>& second);

bool is_warden(const ProcessInfo& info);

}  // namespace muster::agent::strays
