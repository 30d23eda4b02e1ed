// One look at a host for what jobs of our uid have left there, whichever they are: sessions with their locks and
// leases, processes, traces. Blocks, bounded by some seconds. Single-threaded.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "agent/proc/session_dir.h"
#include "agent/strays/stray_rule.h"
#include "agent/strays/traces.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct LookOptions {
  std::string session_root = {};               // empty: ${MUSTER_TMPDIR:-/tmp}
  std::string job_prefix = {};                 // only jobs whose id begins so
  std::vector<std::string> locked_by_us = {};  // sessions whose lock the caller holds
  std::string shared_memory = "/dev/shm";
};

struct SeenSession {
  std::string job_id;
  FoundSession found;  // with the lock, ours now, when nobody else held it
  std::chrono::seconds age{0};
};

struct HostLook {
  std::map<std::string, JobState> jobs;                         // of job_prefix
  std::map<std::string, std::chrono::milliseconds> lease_left;  // of those whose lease runs
  std::vector<SeenSession> sessions;                            // of dead jobs
  std::vector<Stray> strays;
  std::vector<Trace> traces;
  std::vector<std::string> problems;  // what could not be looked at: one sentence each
};

// Sessions are those under the root, and those that a process of the job names. One made less than a second ago is not
// locked, so that its agent can; its job counts as one whose lease runs.
base::Result<HostLook> look_at_host(const LookOptions& options);

}  // namespace muster::agent::strays
