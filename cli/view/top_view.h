// Formats what `muster top` shows of one moment: hosts, jobs, and what jobs wait for.
// Thread: any; pure.
#pragma once

#include <cstddef>
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

// Returns at most `rows` lines of at most `columns` characters, without the last newline. If lines are left out, the
// last line tells how many.
std::string fit_screen(const std::string& text, std::size_t rows, std::size_t columns);

}  // namespace muster::cli::view
