#include "agent/job/agent_lease.h"

#include <chrono>

#include <gtest/gtest.h>

namespace muster::agent::agent_lease_test {
namespace {

using namespace std::chrono_literals;

constexpr base::Duration kLength = 60s;
const base::MonotonicTime kStart = base::MonotonicTime{} + 1h;

struct AgentLeaseTest : ::testing::Test {
  std::optional<base::MonotonicTime> killed_at;  // as set last
  AgentLease lease{kLength, [this](std::optional<base::MonotonicTime> at) { killed_at = at; }};
};

TEST_F(AgentLeaseTest, IsOverAfterItsLengthWithoutTheLauncher) {
  lease.contact(kStart);
  EXPECT_FALSE(lease.is_over(kStart + kLength));
  EXPECT_TRUE(lease.is_over(kStart + kLength + 1ms));
  lease.contact(kStart + 30s);
  EXPECT_FALSE(lease.is_over(kStart + kLength + 1ms));
}

TEST_F(AgentLeaseTest, KillsAnAgentThatHangsWhenItsLeaseIsOver) {
  lease.contact(kStart);
  EXPECT_EQ(killed_at, kStart + kLength + AgentLease::kHangBound);
  lease.contact(kStart + 30s);
  EXPECT_EQ(killed_at, kStart + 30s + kLength + AgentLease::kHangBound);
}

TEST_F(AgentLeaseTest, RestsWhileAJobIsSuspended) {
  lease.contact(kStart);
  lease.follow({.is_suspended = true}, kStart + 1s);
  EXPECT_EQ(killed_at, std::nullopt);
  lease.contact(kStart + 2s);
  EXPECT_EQ(killed_at, std::nullopt);
  EXPECT_FALSE(lease.is_over(kStart + 1h));
  lease.follow({}, kStart + 1h);
  EXPECT_EQ(killed_at, kStart + 1h + kLength + AgentLease::kHangBound);
  EXPECT_FALSE(lease.is_over(kStart + 1h + kLength));
  EXPECT_TRUE(lease.is_over(kStart + 1h + kLength + 1ms));
}

TEST_F(AgentLeaseTest, LimitsTheTimeInWhichAJobEnds) {
  lease.contact(kStart);
  lease.follow({.is_ending = true}, kStart + 1s);
  EXPECT_EQ(killed_at, kStart + 1s + kEndBound);
  lease.contact(kStart + 2s);
  lease.follow({.is_ending = true}, kStart + 2s);
  EXPECT_EQ(killed_at, kStart + 1s + kEndBound) << "the launcher cannot put it off";
  lease.follow({}, kStart + 3s);
  EXPECT_EQ(killed_at, kStart + 2s + kLength + AgentLease::kHangBound);
  lease.follow({.is_ending = true}, kStart + 10s);
  EXPECT_EQ(killed_at, kStart + 10s + kEndBound) << "the next job has its own time";
}

TEST_F(AgentLeaseTest, LimitsTheEndOfAJobThatWasSuspended) {
  lease.contact(kStart);
  lease.follow({.is_suspended = true}, kStart + 1s);
  lease.follow({.is_ending = true}, kStart + 2s);
  EXPECT_EQ(killed_at, kStart + 2s + kEndBound);
  lease.follow({}, kStart + 3s);
  EXPECT_EQ(killed_at, kStart + 2s + kLength + AgentLease::kHangBound);
}

TEST_F(AgentLeaseTest, KeepsTheEarlierTimeOfTwo) {
  AgentLease brief(1s, [this](std::optional<base::MonotonicTime> at) { killed_at = at; });
  brief.contact(kStart);
  brief.follow({.is_ending = true}, kStart);
  EXPECT_EQ(killed_at, kStart + 1s + AgentLease::kHangBound);
}

TEST_F(AgentLeaseTest, NothingPutsOffTheEndOfTheAgent) {
  lease.contact(kStart);
  lease.ending(kStart + 5s);
  EXPECT_EQ(killed_at, kStart + 5s + kEndBound);
  lease.contact(kStart + 6s);
  lease.follow({.is_suspended = true}, kStart + 7s);
  lease.follow({.is_ending = true}, kStart + 8s);
  lease.follow({}, kStart + 9s);
  lease.ending(kStart + 10s);
  EXPECT_EQ(killed_at, kStart + 5s + kEndBound);
}

}  // namespace
}  // namespace muster::agent::agent_lease_test
