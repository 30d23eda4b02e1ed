#include "agent/job/agent_messages.h"

#include <gtest/gtest.h>

namespace muster::agent::agent_messages_test {
namespace {

v1::AgentMessage world_of(int rank, int size, const std::string& source) {
  v1::AgentMessage message;
  message.mutable_rank_world()->set_rank(rank);
  message.mutable_rank_world()->set_size(size);
  message.mutable_rank_world()->set_source(source);
  return message;
}

TEST(AgentMessages, HistoryIsWhatARestartedLauncherMustKnow) {
  v1::AgentMessage exited;
  exited.mutable_rank_exited();
  EXPECT_TRUE(is_history(exited));
  EXPECT_TRUE(is_history(world_of(0, 1, "MPI")));
  v1::AgentMessage pong;
  pong.mutable_pong();
  EXPECT_FALSE(is_history(pong));
  v1::AgentMessage load;
  load.mutable_host_load();
  EXPECT_FALSE(is_history(load));
}

TEST(AgentMessages, TheNewestWorldOfEachSourceIsKept) {
  std::vector<v1::AgentMessage> history;
  for (int size = 1; size <= 100; ++size) {
    for (const int rank : {0, 1}) add_to_history(world_of(rank, size, "MPI"), history);
  }
  add_to_history(world_of(0, 7, "torchrun"), history);
  v1::AgentMessage exited;
  exited.mutable_rank_exited();
  add_to_history(exited, history);
  add_to_history(exited, history);
  ASSERT_EQ(history.size(), 5U);
  EXPECT_EQ(history[0].rank_world().size(), 100);
  EXPECT_EQ(history[1].rank_world().rank(), 1);
  EXPECT_EQ(history[2].rank_world().source(), "torchrun");
}

}  // namespace
}  // namespace muster::agent::agent_messages_test
