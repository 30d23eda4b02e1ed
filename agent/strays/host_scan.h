// Searches a host once for everything that jobs of our uid have left there, whichever jobs they are. It finds sessions
// with their locks and leases, processes, and stray files.
//
// Thread: single-threaded. Calls block, bounded by some seconds.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "agent/proc/session_dir.h"
#include "agent/strays/stray_files.h"
#include "agent/strays/stray_rule.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct HostScanOptions {
  std::string session_root = {};               // empty means ${MUSTER_TMPDIR:-/tmp}
  std::string job_prefix = {};                 // only jobs whose id begins with this
  std::vector<std::string> locked_by_us = {};  // sessions whose lock the caller holds
  std::string shared_memory = "/dev/shm";
};

struct SeenSession {
  std::string job_id;
  // Contains the session's lock if no other process held it. The lock is then ours.
  FoundSession found;
  std::chrono::seconds age{0};
};

struct HostScan {
  std::map<std::string, JobState> jobs;                         // only jobs whose id begins with job_prefix
  std::map<std::string, std::chrono::milliseconds> lease_left;  // jobs whose lease still runs
  std::vector<SeenSession> sessions;                            // sessions of dead jobs
  std::vector<Stray> strays;
  std::vector<StrayFile> files;
  std::vector<std::string> problems;  // what could not be read; one sentence each
};

// Finds the sessions under the root, and those that a process of the job names. A session made less than a second ago
// is not locked, so that its agent can lock it. Its job counts as one whose lease runs.
base::Result<HostScan> scan_host(const HostScanOptions& options);

}  // namespace muster::agent::strays
