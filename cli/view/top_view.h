// What `muster top` shows of one moment: hosts, jobs, what jobs wait for. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// One answer of all launchers.
struct TopSample {
  std::string launcher;  // the launcherd's address; empty: there is none
  std::vector<v1::LauncherHost> hosts;
  std::vector<v1::Job> jobs;  // of launcherd and of foreground hvdruns
  std::string problem;        // why launcherd is not in it; empty: none
  base::WallTime at{};
};

// A summary, the hosts, the jobs.
std::string format_top(const TopSample& sample);

// At most `rows` lines of at most `columns` characters, without the last newline; a last line tells of those left out.
std::string fit_screen(const std::string& text, std::size_t rows, std::size_t columns);

}  // namespace muster::cli::view
