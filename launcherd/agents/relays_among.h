// How many agents of a launcher are relays for others. Pure.
#pragma once

#include <algorithm>
#include <cmath>

namespace muster::launcherd::inline agents {

inline constexpr int kDefaultFanout = 64;  // --fanout

// Returns 0 if all agents connect to the launcher itself. `fanout` 0 means that they always do. Otherwise about the
// square root of their number are relays, so that launcher and relays have about as many connections each.
inline int relays_among(int agents, int fanout) {
  if (fanout <= 0 || agents <= fanout) return 0;
  return std::min(fanout, static_cast<int>(std::ceil(std::sqrt(agents))));
}

}  // namespace muster::launcherd::agents
