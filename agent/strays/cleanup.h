// Ends what dead jobs of our uid have left on this host, whichever they are: `muster-agent --cleanup`. The rule is in
// stray_rule.h; it must hold in two looks 2 s apart; what only the later one sees is looked at again. Every process is
// pinned by a pidfd and looked at once more, start time and environment, before it is killed. Nothing of a job that
// lives is touched, not even by name.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/strays/host_look.h"
#include "base/status.h"

namespace muster::agent::inline strays {

struct CleanupOptions {
  LookOptions look{};
  bool dry_run = false;  // find, touch nothing
};

enum class RemainsKind { kProcess, kSession, kSocket, kCgroup, kSharedMemory };
enum class RemainsState { kFound, kGone, kLeft };  // kFound: dry run

struct Remains {
  RemainsKind kind{};
  RemainsState state = RemainsState::kFound;
  std::string job_id;
  pid_t pid = 0;                 // of a process
  std::uint64_t start_time = 0;  // of a process, in ticks since boot
  std::string name;              // a process's command, else the path
  std::chrono::seconds age{0};
  std::string found_by = {};
  std::string problem = {};  // why it is left
};

struct WaitingJob {
  std::string job_id;
  std::chrono::milliseconds lease_left{0};
};

struct CleanupReport {
  std::vector<Remains> remains;
  std::vector<std::string> alive_jobs;
  std::vector<WaitingJob> waiting_jobs;  // over perhaps, but their lease runs: not touched
  std::vector<std::string> problems;
};

// Blocks, bounded by about 20 s.
base::Result<CleanupReport> clean_up(const CleanupOptions& options);

}  // namespace muster::agent::strays
