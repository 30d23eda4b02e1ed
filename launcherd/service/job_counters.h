// Counts jobs and ranks by result since this launcher started, for /metrics. Plain values.
#pragma once

#include <cstdint>

namespace muster::launcherd::inline service {

struct JobCounters {
  std::uint64_t submitted = 0;
  std::uint64_t ended_well = 0;     // jobs with exit code 0
  std::uint64_t ended_badly = 0;    // jobs with any other exit code
  std::uint64_t rank_exits_ok = 0;  // ranks with exit code 0
  std::uint64_t rank_exits_failed = 0;
  // Jobs that went on in another generation, by cause.
  std::uint64_t generations_after_failure = 0;
  std::uint64_t generations_after_lost_host = 0;
  std::uint64_t generations_after_resize = 0;
  std::uint64_t generations_after_preemption = 0;
  std::uint64_t generations_after_growth = 0;
  // Seconds from the failure, or the request to resize, until all ranks of the new generation had started.
  std::uint64_t changes_timed = 0;
  double change_seconds = 0;  // of all changes together
  double last_change_seconds = 0;
  // Seconds from the same event until the first collective of the new generation had ended.
  std::uint64_t collectives_timed = 0;
  double collective_seconds = 0;  // of all generations together
  double last_collective_seconds = 0;
};

}  // namespace muster::launcherd::service
