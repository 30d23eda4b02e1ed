// Counts the steps of a job: the operations of libmuster that have ended, or the heartbeats if there are no operations.
// The rank that is ahead counts. The first report of a world only sets where counting begins, because a launcher may
// come back to a job that has run for days. Agents report nothing for jobs of one rank (agent/job/arrival_report.h).
// Thread: one. A plain value.
#pragma once

#include <cstdint>
#include <optional>

#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline run {

class StepCount {
 public:
  // Returns by how many steps the job has advanced since the reports before. Ignores reports of earlier worlds.
  std::uint64_t add(const v1::RankArrivals& arrivals);

 private:
  std::optional<int> world_;
  std::uint64_t operations_ = 0;  // the highest numbers of this world
  std::uint64_t beats_ = 0;
};

}  // namespace muster::launcherd::run
