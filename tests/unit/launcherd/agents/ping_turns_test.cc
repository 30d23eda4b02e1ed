#include "launcherd/agents/ping_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster::launcherd::ping_turns_test {
namespace {

std::vector<int> pings(std::size_t agents, int ticks, std::size_t& most_at_once) {
  PingTurns turns;
  std::vector<int> counts(agents);
  for (int i = 0; i < ticks; ++i) {
    turns.next(agents);
    std::size_t at_once = 0;
    for (std::size_t agent = 0; agent < agents; ++agent) {
      if (!turns.is_due(agent)) continue;
      ++counts[agent];
      ++at_once;
    }
    most_at_once = std::max(most_at_once, at_once);
  }
  return counts;
}

TEST(PingTurns, PingsUpToAThousandAtEachTick) {
  std::size_t most = 0;
  EXPECT_EQ(pings(1'000, 3, most), std::vector<int>(1'000, 3));
  EXPECT_EQ(most, 1'000u);
}

TEST(PingTurns, PingsEachOfMoreInTurn) {
  std::size_t most = 0;
  EXPECT_EQ(pings(9'500, 30, most), std::vector<int>(9'500, 3));
  EXPECT_LE(most, PingTurns::kMostAtOnce);
}

TEST(PingTurns, AcceptsNoAgents) {
  PingTurns turns;
  turns.next(0);
  EXPECT_EQ(turns.count(), 1);
}

TEST(PingTurns, PingsAllWhenFewerAreLeft) {
  PingTurns turns;
  for (int i = 0; i < 4; ++i) turns.next(5'000);
  turns.next(10);
  for (std::size_t agent = 0; agent < 10; ++agent) EXPECT_TRUE(turns.is_due(agent));
}

}  // namespace
}  // namespace muster::launcherd::ping_turns_test
