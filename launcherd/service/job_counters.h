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
};

}  // namespace muster::launcherd::service
