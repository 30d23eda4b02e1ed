// Cleans up one job on a host whose agent and warden are both gone: `muster-agent --sweep JOB`.
//
// A process is a stray only if it is of our uid and its environment contains exactly MUSTER_JOB_ID=<job>. Also, no
// process may hold the lock on its session's `alive`, and the lease written there must have expired. Two searches, 2 s
// apart, must find all this.
// If the job's own launcher asks, it knows that the job is over (is_known_dead). Then a free lock is enough.
// The caller, its ancestors, and all living agents and wardens are never candidates.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/process/warden_events.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct SweepOptions {
  std::string session_root = {};  // empty means ${MUSTER_TMPDIR:-/tmp}
  // True if the job's own launcher asks. Then neither wait for the lease nor search twice.
  bool is_known_dead = false;
  std::chrono::milliseconds wait_for_lock{2000};  // agent or warden may be cleaning up at this moment
};

struct SweepReport {
  // Session directories whose agent or warden lives or may live. Nothing of theirs was touched.
  std::vector<std::string> alive;
  std::vector<ProcessInfo> continued;  // agents and wardens that were stopped
  std::vector<std::string> removed;    // session directories and cgroups
  std::vector<Leftover> killed;
  std::vector<Unkillable> stuck;
};

// Blocks for at most about 10 s. INVALID_ARGUMENT: `job_id` is not a job id.
base::Result<SweepReport> sweep(const std::string& job_id, const SweepOptions& options = {});

}  // namespace muster::agent::strays
