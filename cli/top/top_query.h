// TopQuery lists what the screen of `muster top` shows now. TopAnswer holds what launchers have answered to it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline top {

// Which jobs are listed, and in which order.
struct JobList {
  bool all = false;      // also ended jobs
  std::string filter{};  // as ListJobsRequest.filter
  v1::JobOrder order = v1::JOB_ORDER_STATE;
  bool is_reversed = false;

  bool operator==(const JobList&) const = default;
};

struct TopQuery {
  JobList list{};
  std::int64_t first = 0;  // row of launcherd's list at which the wanted ones begin
  std::int64_t count = 0;
  std::string job{};  // also this job, with these ranks; empty means none
  int first_rank = 0;
  int rank_count = 0;
  std::string host{};  // also the jobs on this host; empty means none
};

// A part of a list on the launcher's side.
struct JobRows {
  std::int64_t first = 0;  // row of jobs.front()
  std::vector<v1::Job> jobs{};
  std::int64_t total = 0;  // rows of the whole list
};

struct TopAnswer {
  TopQuery query{};  // what was asked
  std::vector<v1::LauncherHost> hosts{};
  JobRows rows{};                     // of launcherd, as `query` says
  std::vector<v1::Job> foreground{};  // the jobs of foreground hvdruns
  std::int64_t running = 0;           // jobs of launcherd, without the foreground ones
  std::int64_t waiting = 0;
  std::string problem{};  // why launcherd's part is missing; empty if it is not
  std::optional<v1::Job> job{};
  std::string job_problem{};  // why `job` is missing
  std::vector<v1::Job> host_jobs{};
  base::WallTime at{};
};

}  // namespace muster::cli::top
