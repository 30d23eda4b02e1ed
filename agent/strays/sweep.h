// Cleans up a host whose agent and warden are both gone: `muster-agent --sweep JOB`, and the stray rule of every
// clean-up.
//
// A process is a stray only if it is of our uid, its environment holds exactly MUSTER_JOB_ID=<job>, nobody holds the
// lock on its session's `alive`, and the lease written there has passed; seen so twice, 2 s apart. The job's own
// launcher knows that the job is over (owner_says_dead): then a free lock is enough. The caller, its ancestors, and
// every agent or warden that lives are never candidates.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/proc/proc_table.h"
#include "agent/process/warden_events.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct SweepOptions {
  std::string session_root = {};  // empty: ${MUSTER_TMPDIR:-/tmp}
  bool owner_says_dead = false;   // the job's own launcher asks: do not wait for the lease nor look twice
  std::chrono::milliseconds wait_for_lock{2000};  // agent or warden may just be cleaning up
};

struct SweepReport {
  // Session directories whose agent or warden lives, as far as can be told: nothing of theirs was touched.
  std::vector<std::string> alive;
  std::vector<ProcessInfo> continued;  // agents and wardens that were stopped
  std::vector<std::string> removed;    // session directories and cgroups
  std::vector<Leftover> killed;
  std::vector<Unkillable> stuck;
};

// Blocks, bounded by about 10 s. INVALID_ARGUMENT: not a job id.
base::Result<SweepReport> sweep(const std::string& job_id, const SweepOptions& options = {});

}  // namespace muster::agent::strays
