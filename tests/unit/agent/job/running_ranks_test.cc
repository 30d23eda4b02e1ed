#include "agent/job/running_ranks.h"

#include <gtest/gtest.h>

namespace muster::agent::running_ranks_test {
namespace {

v1::Launch launch_of(const std::vector<int>& ranks) {
  v1::Launch launch;
  for (const int rank : ranks) launch.add_ranks()->set_rank(rank);
  return launch;
}

TEST(RunningRanks, AreOverWhenTheLastOneIs) {
  RunningRanks ranks;
  EXPECT_TRUE(ranks.are_all_over());
  ranks.add(launch_of({2, 3}));
  ranks.started(2, 20);
  EXPECT_EQ(ranks.over(2), 20);
  EXPECT_FALSE(ranks.are_all_over());
  EXPECT_FALSE(ranks.is_running(2));
  EXPECT_EQ(ranks.over(3), 0) << "it has never run";
  EXPECT_TRUE(ranks.are_all_over());
}

TEST(RunningRanks, HavePidsOnlyWhileTheyRun) {
  RunningRanks ranks;
  ranks.add(launch_of({0, 1}));
  ranks.started(0, 10);
  EXPECT_EQ(ranks.pid_of(0), 10);
  EXPECT_EQ(ranks.pid_of(1), 0);
  EXPECT_EQ(ranks.pids(), (std::map<int, pid_t>{{0, 10}}));
  ranks.over(0);
  EXPECT_EQ(ranks.pid_of(0), 0);
  EXPECT_EQ(ranks.running(), std::set<int>{1});
}

TEST(RunningRanks, RememberWhichWereSpawned) {
  RunningRanks ranks;
  ranks.add(launch_of({0}));
  ranks.add_spawned(launch_of({1}));
  EXPECT_FALSE(ranks.is_spawned(0));
  EXPECT_TRUE(ranks.is_spawned(1));
  EXPECT_TRUE(ranks.is_running(1));
  ranks.over(1);
  EXPECT_TRUE(ranks.is_spawned(1)) << "also after its end";
}

}  // namespace
}  // namespace muster::agent::running_ranks_test
