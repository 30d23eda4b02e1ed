// Formats a launcher's answers for `muster jobs`, `status` and `events`. Text of hosts and programs is made printable.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "base/clock.h"
#include "cli/view/short_rows.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// Formats a heading and a line for each job. Empty if there are no jobs. Of more than `most` jobs, those that failed or
// are lost come first, then those that run, and a line counts the others.
std::string format_jobs(const std::vector<v1::Job>& jobs, base::WallTime now, std::size_t most = kAllRows);
// Formats the same table as format_jobs(), with the bytes of output that each job writes in a second.
std::string format_busy_jobs(const std::vector<v1::Job>& jobs, base::WallTime now);

// Formats the same table as format_jobs(), with who submitted each job, and with what it waits for.
std::string format_wide_jobs(const std::vector<v1::Job>& jobs, base::WallTime now, std::size_t most = kAllRows);

// Formats one job, its hosts and its ranks. If a table has more than `most` rows, those that failed, do not answer or
// are late come first, and a line counts the others.
std::string format_status(const v1::Job& job, base::WallTime now, std::size_t most = kAllRows);

// Returns "2026-06-20 19:02:11.123456 +0200 rank 3 on n2: exit code 1" and a newline. Times are local.
std::string format_event(const v1::Event& event);
// The same without the time and without the newline.
std::string event_text(const v1::Event& event);

// Returns a name such as "RUNNING".
std::string state_name(v1::JobState state);

// The texts of one job in a table, as format_jobs() has them, but not cut.
struct JobTexts {
  std::string state;
  std::string hosts;  // "3/4": those that are up; "-" if it has none
  std::string age;
  std::string command;
};
JobTexts texts_of(const v1::Job& job, base::WallTime now);

// The texts of one rank in a table, as format_status() has them.
struct RankTexts {
  std::string role;  // "-" if the job has none
  std::string pid;
  std::string gpus;
  std::string cores;
  std::string state;
};
RankTexts texts_of(const v1::Job& job, const v1::RankStatus& rank);

// Returns the lines of format_status() that come before its tables.
std::string format_job_head(const v1::Job& job, base::WallTime now);

// Returns whether a rank came last so often that it is worth naming. A rank that is late by chance is not.
bool is_often_late(const v1::RankLateness& late);

}  // namespace muster::cli::view
