#include "agent/job/live_ranks.h"

#include <gtest/gtest.h>

namespace muster::agent::live_ranks_test {
namespace {

void add(v1::BeginGeneration& order, int number, int rank, int local_rank) {
  v1::LiveMember& member = *order.add_members();
  member.set_number(number);
  member.set_rank(rank);
  member.set_local_rank(local_rank);
}

TEST(LiveRanks, KnowsProcessesByTheirNumbersNow) {
  LiveRanks ranks;
  EXPECT_TRUE(ranks.is_empty());
  v1::BeginGeneration first;
  add(first, 2, 2, 0);
  add(first, 3, 3, 1);
  ranks.begin(first.members());
  EXPECT_EQ(ranks.at_local_rank(1), 3);
  v1::BeginGeneration second;
  add(second, 3, 0, 0);
  add(second, 2, -1, -1);
  ranks.begin(second.members());
  EXPECT_EQ(ranks.at_local_rank(0), 3);
  EXPECT_EQ(ranks.at_local_rank(1), std::nullopt);
  EXPECT_EQ(ranks.at_rank(0), 3);
  EXPECT_EQ(ranks.rank_of(3), 0);
  EXPECT_EQ(ranks.local_rank_of(3), 0);
  EXPECT_EQ(ranks.rank_of(2), std::nullopt) << "it is no longer in the job";
  EXPECT_EQ(ranks.ranks(), std::vector<int>{0});
  ranks.remove(3);
  EXPECT_EQ(ranks.at_rank(0), std::nullopt);
}

TEST(LiveRanks, AProcessThatJoinsIsFoundByItsNextRank) {
  LiveRanks ranks;
  v1::BeginGeneration now;
  add(now, 2, 2, 0);
  add(now, 3, 3, 1);
  ranks.begin(now.members());
  v1::BeginGeneration joining;
  add(joining, 4, 2, 2);  // host 0 is lost, so number 2 will have rank 0
  ranks.add(joining.members());
  EXPECT_EQ(ranks.at_rank(2), 4);
  EXPECT_EQ(ranks.at_rank(3), 3);
  EXPECT_EQ(ranks.at_local_rank(0), 2);
  EXPECT_EQ(ranks.at_local_rank(2), 4);
}

TEST(LiveRanks, NumbersAreWrittenAsHorovodReadsThem) {
  v1::LiveMember member;
  member.set_rank(3);
  member.set_size(4);
  member.set_local_rank(1);
  member.set_local_size(2);
  member.set_cross_rank(1);
  member.set_cross_size(2);
  EXPECT_EQ(numbers_text(member), "3,4,1,2,1,2");
  member.set_rank(-1);
  EXPECT_EQ(numbers_text(member), "-1,-1,-1,-1,-1,-1");
}

}  // namespace
}  // namespace muster::agent::live_ranks_test
