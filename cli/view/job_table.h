// How `muster jobs`, `status` and `events` show what a launcher says. Pure; text of hosts and programs is made
// printable.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// A line a job under a heading; empty for none.
std::string format_jobs(const std::vector<v1::Job>& jobs, base::WallTime now);
// The same, with what they write a second.
std::string format_busy_jobs(const std::vector<v1::Job>& jobs, base::WallTime now);

// The job, its hosts, its ranks.
std::string format_status(const v1::Job& job, base::WallTime now);

// "19:02:11.123456 rank 3 on n2: exit code 1" and a newline; times are UTC.
std::string format_event(const v1::Event& event);

// "RUNNING".
std::string state_name(v1::JobState state);

}  // namespace muster::cli::view
