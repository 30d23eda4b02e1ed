#include "launcherd/run/live_output.h"

namespace muster::launcherd::inline run {

void LiveOutput::set_ranks(const std::map<int, int>& ranks) {
  const std::lock_guard lock(mutex_);
  for (const auto& [number, rank] : ranks) ranks_[number] = rank;
}

int LiveOutput::rank_of(int number) const {
  const std::lock_guard lock(mutex_);
  const auto found = ranks_.find(number);
  return found == ranks_.end() ? number : found->second;
}

}  // namespace muster::launcherd::run
