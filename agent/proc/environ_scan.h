// The audit: finds processes of our uid whose environment contains exactly MUSTER_JOB_ID=<job>.
//
// Reading an environment waits for the memory lock of its process. If that process hangs in the kernel, the reader
// waits for ever. So a forked copy of this process reads, with a time limit for each process. A process that exceeds
// the limit is skipped and reported.
//
// Thread: any; the process may have threads. Calls block, bounded by ScanLimits::total.
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
  std::string session_dir;  // its MUSTER_SESSION_DIR; empty if it has none
};

struct EnvironScan {
  std::vector<MarkedProcess> found;
  std::vector<pid_t> unreadable;  // those whose environment did not arrive in time
  bool is_complete = true;        // false if the total time ended first
};

struct ScanLimits {
  std::chrono::milliseconds per_process{200};
  std::chrono::milliseconds total{3000};
};

base::Result<EnvironScan> scan_environments(const std::string& job_id, const ScanLimits& limits = {});

// Does the same for all jobs. It finds processes whose MUSTER_JOB_ID is a well-formed id.
base::Result<EnvironScan> scan_all_jobs(const ScanLimits& limits = {});

struct MarkedKill {
  std::vector<ProcessInfo> killed;
  std::vector<pid_t> unreadable;
};

// Kills the processes of a job. It scans, opens a pidfd for each process found, and scans again. It kills those that
// both scans found as the same process. It repeats this until nothing is found, at most 10 times.
// It spares the pids of `spare`. It also spares a process whose MUSTER_SESSION_DIR is not `own_session`, if the agent
// of that other session lives.
base::Result<MarkedKill> kill_marked(const std::string& job_id, const std::string& own_session,
                                     const std::vector<pid_t>& spare);

}  // namespace muster::agent::proc
