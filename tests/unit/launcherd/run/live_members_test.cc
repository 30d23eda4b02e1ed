#include "launcherd/run/live_members.h"

#include <gtest/gtest.h>

namespace muster::launcherd::live_members_test {
namespace {

LiveMembers four() {
  LiveMembers members;
  for (int number = 0; number < 4; ++number) {
    members.add(
        {.number = number, .agent = number / 2, .slot = {number < 2 ? "n1" : "n2", number % 2}, .rank = number});
  }
  return members;
}

TEST(LiveMembers, ProcessesKeepTheirNumbers) {
  LiveMembers members = four();
  EXPECT_EQ(members.next_number(), 4);
  members.find(0)->has_ended = true;
  members.find(1)->has_ended = true;
  EXPECT_FALSE(members.may_run(1));
  EXPECT_EQ(members.living({"n1", 0}), nullptr);
  EXPECT_EQ(members.living_on(1).size(), 2U);
  EXPECT_TRUE(members.living_on(0).empty());
  const std::vector<int> former = members.begin({{{"n2", 0}, {.rank = 0}}, {{"n2", 1}, {.rank = 1}}});
  EXPECT_EQ(former, (std::vector<int>{2, 3}));
  EXPECT_EQ(members.rank_of(2), 0);
  EXPECT_EQ(members.rank_of(0), -1) << "it is in no later generation";
  EXPECT_EQ(members.number_of(1), 3);
  EXPECT_EQ(members.agent_of_rank(1), 1);
  EXPECT_EQ(members.number_of(2), -1);
}

TEST(LiveMembers, UnknownNumbersHaveNoRank) {
  LiveMembers members = four();
  for (const int number : {-1, 4}) {
    EXPECT_EQ(members.find(number), nullptr);
    EXPECT_EQ(members.rank_of(number), -1);
    EXPECT_FALSE(members.may_run(number));
    EXPECT_FALSE(members.is_stopped(number));
  }
  EXPECT_EQ(members.number_of(-1), -1);
}

TEST(LiveMembers, ANewProcessHadNoRank) {
  LiveMembers members = four();
  members.find(3)->has_ended = true;
  members.add({.number = 4, .agent = 1, .slot = {"n2", 1}});
  const std::vector<int> former =
      members.begin({{{"n1", 0}, {.rank = 0}}, {{"n1", 1}, {.rank = 1}}, {{"n2", 1}, {.rank = 2}}});
  EXPECT_EQ(former, (std::vector<int>{0, 1, -1}));
  EXPECT_EQ(members.rank_of(4), 2);
  EXPECT_EQ(members.number_of(2), 4);
  EXPECT_EQ(members.rank_of(2), -1);
  EXPECT_TRUE(members.is_any_living());
}

TEST(LiveMembers, ASlotBelongsToItsLastProcess) {
  LiveMembers members = four();
  members.find(3)->has_ended = true;
  EXPECT_EQ(members.living({"n2", 1}), nullptr);
  members.add({.number = 4, .agent = 1, .slot = {"n2", 1}});
  EXPECT_EQ(members.living({"n2", 1}), members.find(4));
  EXPECT_EQ(members.living({"n3", 0}), nullptr);
}

TEST(LiveMembers, NamesAgentsWithLivingProcesses) {
  LiveMembers members = four();
  members.find(0)->has_ended = true;
  EXPECT_EQ(members.living_agents(), (std::set<int>{0, 1}));
  members.find(1)->has_ended = true;
  EXPECT_EQ(members.living_agents(), std::set<int>{1});
}

}  // namespace
}  // namespace muster::launcherd::live_members_test
