#include "launcherd/agents/ping_turns.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace muster::launcherd::ping_turns_test {
namespace {

std::vector<int> pings(std::size_t agents, int ticks, std::size_t& most_at_once, std::int64_t lease_ticks = 0) {
  PingTurns turns;
  std::vector<int> counts(agents);
  for (int i = 0; i < ticks; ++i) {
    turns.next(agents, lease_ticks);
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

TEST(PingTurns, PingsEachTwentyTimesInALongLease) {
  std::size_t most = 0;
  EXPECT_EQ(pings(10'000, 600, most, 1'200), std::vector<int>(10'000, 10));  // a lease of 600 s, a tick of 0.5 s
  EXPECT_EQ(most, 167u);
  most = 0;
  EXPECT_EQ(pings(8'000, 500, most, 1'200), std::vector<int>(8'000, 10));
  EXPECT_EQ(most, PingTurns::kFewAtOnce);
  most = 0;
  EXPECT_EQ(pings(10'000, 400, most, 400), std::vector<int>(10'000, 20));
  EXPECT_EQ(most, 500u);
}

TEST(PingTurns, PingsAsBeforeInAShortLease) {
  std::size_t most = 0;
  EXPECT_EQ(pings(10'000, 30, most, 30), std::vector<int>(10'000, 3));
  EXPECT_EQ(most, PingTurns::kMostAtOnce);
}

TEST(PingTurns, PingsAThousandAtEachTickInALongLeaseToo) {
  std::size_t most = 0;
  EXPECT_EQ(pings(1'000, 3, most, 1'200), std::vector<int>(1'000, 3));
}

TEST(PingTurns, AcceptsNoAgents) {
  PingTurns turns;
  turns.next(0, 1'200);
  EXPECT_EQ(turns.count(), 1);
}

TEST(PingTurns, PingsAllWhenFewerAreLeft) {
  PingTurns turns;
  for (int i = 0; i < 4; ++i) turns.next(5'000, 1'200);
  turns.next(10, 1'200);
  for (std::size_t agent = 0; agent < 10; ++agent) EXPECT_TRUE(turns.is_due(agent));
}

}  // namespace
}  // namespace muster::launcherd::ping_turns_test
