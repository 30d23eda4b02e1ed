#include "launcherd/run/step_count.h"

#include <limits>

#include <gtest/gtest.h>

namespace muster::launcherd::step_count_test {
namespace {

v1::RankArrivals report(int rank, std::uint64_t ended, std::uint64_t beats = 0, int world = 0) {
  v1::RankArrivals arrivals;
  arrivals.set_rank(rank);
  arrivals.set_world(world);
  arrivals.set_ended(ended);
  arrivals.set_beats(beats);
  return arrivals;
}

TEST(StepCount, TheRankAheadCounts) {
  StepCount count;
  EXPECT_EQ(count.add(report(0, 500)), 0U) << "the job may have run for long";
  EXPECT_EQ(count.add(report(1, 503)), 3U);
  EXPECT_EQ(count.add(report(0, 502)), 0U);
  EXPECT_EQ(count.add(report(0, 510)), 7U);
}

TEST(StepCount, HeartbeatsCountIfThereAreNoOperations) {
  StepCount count;
  count.add(report(0, 0, 4));
  EXPECT_EQ(count.add(report(0, 0, 9)), 5U);
  EXPECT_EQ(count.add(report(0, 2, 12)), 2U);
  EXPECT_EQ(count.add(report(0, 2, 20)), 0U);
}

TEST(StepCount, EachWorldCountsFromItsFirstReport) {
  StepCount count;
  count.add(report(0, 100));
  EXPECT_EQ(count.add(report(0, 3, 0, 1)), 0U);
  EXPECT_EQ(count.add(report(1, 150, 0, 0)), 0U) << "a late report of the earlier world";
  EXPECT_EQ(count.add(report(1, 5, 0, 1)), 2U);
}

TEST(StepCount, AnyNumberIsAccepted) {
  StepCount count;
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(count.add(report(-1, 0, 0, -5)), 0U);
  EXPECT_EQ(count.add(report(0, kMost, kMost, -5)), kMost);
  EXPECT_EQ(count.add(report(0, 0, 0, -5)), 0U);
}

}  // namespace
}  // namespace muster::launcherd::step_count_test
