// The audit: processes of our uid whose environment holds exactly MUSTER_JOB_ID=<job>.
//
// Reading an environment waits for that process's memory lock, for ever when it hangs in the kernel. So a copied child
// does the reading, with a limit for each process; a process that exceeds it is skipped and named. May be called from a
// process with threads. Blocks, bounded by ScanLimits::total.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "base/status.h"

namespace muster::agent::inline proc {

struct MarkedProcess {
  ProcessInfo info;
  std::string job_id;
  std::string session_dir;  // its MUSTER_SESSION_DIR; empty without
};

struct EnvironScan {
  std::vector<MarkedProcess> found;
  std::vector<pid_t> unreadable;  // those that did not answer in time
  bool is_complete = true;        // false: the time was over first
};

struct ScanLimits {
  std::chrono::milliseconds per_process{200};
  std::chrono::milliseconds total{3000};
};

base::Result<EnvironScan> scan_environments(const std::string& job_id, const ScanLimits& limits = {});

// The same for every job: processes whose MUSTER_JOB_ID is a well-formed id.
base::Result<EnvironScan> scan_all_jobs(const ScanLimits& limits = {});

struct MarkedKill {
  std::vector<ProcessInfo> killed;
  std::vector<pid_t> unreadable;
};

// Scans, opens a pidfd for each process found, scans again, and kills those that are in both scans as the same process;
// repeated until nothing is found (at most 10 times). Spared: the pids of `spare`, and processes that name a session
// directory other than `own_session` of which an agent lives.
base::Result<MarkedKill> kill_marked(const std::string& job_id, const std::string& own_session,
                                     const std::vector<pid_t>& spare);

}  // namespace muster::agent::proc
