// Ends everything that dead jobs of our uid have left on this host, whichever jobs they are: `muster-agent
// --cleanup`.
//
// stray_rule.h has the rule. It must hold in two searches 2 s apart. If only the later search finds something, another
// search follows.
// Each process is pinned by a pidfd. Its start time and environment are read once more before it is killed.
// Nothing of a living job is touched, not even something that only has its name.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/strays/host_scan.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct CleanupOptions {
  HostScanOptions scan{};
  bool dry_run = false;  // only find strays; touch nothing
};

enum class RemainsKind { kProcess, kSession, kSocket, kCgroup, kSharedMemory };
enum class RemainsState { kFound, kGone, kLeft };  // kFound is the state in a dry run

struct Remains {
  RemainsKind kind{};
  RemainsState state = RemainsState::kFound;
  std::string job_id;
  pid_t pid = 0;                 // set for a process
  std::uint64_t start_time = 0;  // set for a process, in ticks since boot
  std::string name;              // the process's command; for other kinds the path
  std::chrono::seconds age{0};
  std::string found_by = {};
  std::string problem = {};  // why it is left; empty otherwise
};

struct WaitingJob {
  std::string job_id;
  std::chrono::milliseconds lease_left{0};
};

struct CleanupReport {
  std::vector<Remains> remains;
  std::vector<std::string> alive_jobs;
  // Jobs that may be over, but whose lease still runs. Nothing of them is touched.
  std::vector<WaitingJob> waiting_jobs;
  std::vector<std::string> problems;
};

// Blocks for at most about 20 s.
base::Result<CleanupReport> clean_up(const CleanupOptions& options);

}  // namespace muster::agent::strays
