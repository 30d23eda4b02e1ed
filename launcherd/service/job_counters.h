// Counts jobs and ranks by result since this launcher started, and jobs that wait now, for /metrics. Plain values.
#pragma once

#include <cstdint>

#include "launcherd/service/duration_histogram.h"

namespace muster::launcherd::inline service {

struct JobCounters {
  std::uint64_t submitted = 0;
  // Jobs that have not ended, now. Elements of arrays are jobs, arrays are not.
  std::uint64_t queued = 0;  // with those that are held
  std::uint64_t held = 0;
  std::uint64_t starting = 0;
  std::uint64_t running = 0;
  std::uint64_t stopping = 0;
  std::uint64_t ranks = 0;  // of jobs that have started
  // Jobs by the state in which they have ended.
  std::uint64_t jobs_succeeded = 0;
  std::uint64_t jobs_failed = 0;
  std::uint64_t jobs_killed = 0;
  std::uint64_t jobs_lost = 0;
  DurationHistogram queue_wait{};   // from the submission until the job got slots
  DurationHistogram start_time{};   // from then until all ranks had started, for the first generation
  DurationHistogram run_time{};     // from then until the job's end
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
