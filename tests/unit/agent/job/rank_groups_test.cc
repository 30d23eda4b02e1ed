#include "agent/job/rank_groups.h"

#include <vector>

#include <gtest/gtest.h>

#include "tests/unit/support/turn_until.h"

namespace muster::agent::rank_groups_test {
namespace {

v1::AgentMessage started(int rank, int pid_inside = 0) {
  v1::AgentMessage message;
  v1::RankStarted& body = *message.mutable_rank_started();
  body.set_rank(rank);
  body.set_pid(100 + rank);
  body.set_pid_inside(pid_inside == 0 ? 100 + rank : pid_inside);
  body.set_agent_ns(1'000 + rank);
  return message;
}

v1::AgentMessage exited(int rank) {
  v1::AgentMessage message;
  v1::RankExited& body = *message.mutable_rank_exited();
  body.set_rank(rank);
  body.set_pid(100 + rank);
  body.set_pid_inside(100 + rank);
  body.set_agent_ns(2'000 + rank);
  return message;
}

v1::AgentMessage launched() {
  v1::AgentMessage message;
  message.mutable_launched();
  return message;
}

class RankGroupsTest : public ::testing::Test {
 protected:
  void wait_for(std::size_t messages) {
    testing_support::turn_until(loop_, [&] { return sent_.size() >= messages; });
  }

  base::Loop loop_;
  std::vector<v1::AgentMessage> sent_;
  RankGroups groups_{loop_, [this](v1::AgentMessage message) { sent_.push_back(std::move(message)); }};
};

TEST_F(RankGroupsTest, SendsStartsOfSeveralRanksAsOne) {
  for (int rank = 4; rank < 8; ++rank) groups_.send(started(rank));
  EXPECT_TRUE(sent_.empty());
  wait_for(1);
  ASSERT_EQ(sent_.size(), 1u);
  const v1::RanksStarted& group = sent_.front().ranks_started();
  ASSERT_EQ(group.ranks_size(), 4);
  ASSERT_EQ(group.pids_size(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(group.ranks(i), 4 + i);
    EXPECT_EQ(group.pids(i), 104 + i);
  }
  EXPECT_TRUE(group.pids_inside().empty());
  EXPECT_EQ(group.agent_ns(), 1'007);
}

TEST_F(RankGroupsTest, SendsOneRankAsItIs) {
  groups_.send(started(3));
  groups_.send(exited(3));
  wait_for(2);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].rank_started().rank(), 3);
  EXPECT_EQ(sent_[1].rank_exited().rank(), 3);
}

TEST_F(RankGroupsTest, NamesThePidsInsideIfTheyDiffer) {
  groups_.send(started(0, 2));
  groups_.send(started(1, 3));
  wait_for(1);
  const v1::RanksStarted& group = sent_.front().ranks_started();
  ASSERT_EQ(group.pids_inside_size(), 2);
  EXPECT_EQ(group.pids_inside(0), 2);
  EXPECT_EQ(group.pids_inside(1), 3);
}

TEST_F(RankGroupsTest, AnyOtherMessageGoesOutAtOnceAfterWhatIsHeld) {
  groups_.send(started(0));
  groups_.send(started(1));
  groups_.send(exited(0));
  groups_.send(launched());
  ASSERT_EQ(sent_.size(), 3u);
  EXPECT_EQ(sent_[0].ranks_started().ranks_size(), 2);
  EXPECT_EQ(sent_[1].rank_exited().rank(), 0);
  EXPECT_TRUE(sent_[2].has_launched());
}

// Ranks that end while others start do not split the group. The start of a rank still comes before its end.
TEST_F(RankGroupsTest, StartsComeBeforeEnds) {
  for (int rank = 0; rank < 3; ++rank) {
    groups_.send(started(rank));
    groups_.send(exited(rank));
  }
  wait_for(2);
  ASSERT_EQ(sent_.size(), 2u);
  EXPECT_EQ(sent_[0].ranks_started().ranks_size(), 3);
  EXPECT_EQ(sent_[1].ranks_exited().ranks_size(), 3);
}

TEST_F(RankGroupsTest, AnEndThatIsNotPlainIsSentByItself) {
  std::vector<v1::AgentMessage> others(6, exited(9));
  others[0].mutable_rank_exited()->set_wait_status(256);
  others[1].mutable_rank_exited()->set_stopped_by_us(true);
  others[2].mutable_rank_exited()->set_out_of_memory(true);
  others[3].mutable_rank_exited()->set_abort_code(0);
  others[4].mutable_rank_exited()->set_without_finalize(true);
  others[5].mutable_rank_exited()->mutable_facts();
  for (const v1::AgentMessage& other : others) {
    sent_.clear();
    groups_.send(exited(1));
    groups_.send(exited(2));
    groups_.send(other);
    ASSERT_EQ(sent_.size(), 2u) << other.ShortDebugString();
    EXPECT_EQ(sent_[0].ranks_exited().ranks_size(), 2);
    EXPECT_EQ(sent_[1].SerializeAsString(), other.SerializeAsString());
  }
}

}  // namespace
}  // namespace muster::agent::rank_groups_test
