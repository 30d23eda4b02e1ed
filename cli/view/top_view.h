// Formats what `muster top --once` prints: hosts, jobs, and what jobs wait for.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// The answers of all launchers at one moment.
struct TopSample {
  std::string launcher;  // the launcherd's address; empty if there is none
  std::vector<v1::LauncherHost> hosts;
  std::vector<v1::Job> jobs;  // of launcherd and of foreground hvdruns
  std::string problem;        // why launcherd's part is missing; empty if it is not
  base::WallTime at{};
};

// Returns a summary, the hosts and the jobs.
std::string format_top(const TopSample& sample);

}  // namespace muster::cli::view
