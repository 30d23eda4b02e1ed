#include "agent/job/running_ranks.h"

namespace muster::agent::inline job {

void RunningRanks::add(const v1::Launch& launch) {
  for (const v1::LaunchRank& rank : launch.ranks()) running_.insert(rank.rank());
}

void RunningRanks::add_spawned(const v1::Launch& launch) {
  add(launch);
  for (const v1::LaunchRank& rank : launch.ranks()) spawned_.insert(rank.rank());
}

pid_t RunningRanks::over(int rank) {
  running_.erase(rank);
  const pid_t pid = pid_of(rank);
  pids_.erase(rank);
  return pid;
}

pid_t RunningRanks::pid_of(int rank) const {
  const auto found = pids_.find(rank);
  return found == pids_.end() ? 0 : found->second;
}

}  // namespace muster::agent::job
