// What has become of jobs since this launcher was started: for /metrics. Plain values.
#pragma once

#include <cstdint>

namespace muster::launcherd::inline service {

struct JobCounters {
  std::uint64_t submitted = 0;
  std::uint64_t ended_well = 0;     // jobs with exit code 0
  std::uint64_t ended_badly = 0;    // all others
  std::uint64_t rank_exits_ok = 0;  // with exit code 0
  std::uint64_t rank_exits_failed = 0;
};

}  // namespace muster::launcherd::service
