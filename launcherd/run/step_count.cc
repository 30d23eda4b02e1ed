#include "launcherd/run/step_count.h"

#include <algorithm>
#include <utility>

namespace muster::launcherd::inline run {

std::uint64_t StepCount::add(const v1::RankArrivals& arrivals) {
  if (world_ && arrivals.world() < *world_) return 0;
  if (!world_ || arrivals.world() > *world_) {
    world_ = arrivals.world();
    operations_ = arrivals.ended();
    beats_ = arrivals.beats();
    return 0;
  }
  const std::uint64_t operations = std::exchange(operations_, std::max(operations_, arrivals.ended()));
  const std::uint64_t beats = std::exchange(beats_, std::max(beats_, arrivals.beats()));
  return operations_ > 0 ? operations_ - operations : beats_ - beats;
}

}  // namespace muster::launcherd::run
