// A world that somebody does not join, or whose session ends.
#include "collectives/world.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/ids.h"
#include "base/net.h"
#include "collectives/bootstrap/alone.h"
#include "tests/unit/collectives/bootstrap/session_world.h"

namespace muster::collectives::world_test {
namespace {

using std::chrono::milliseconds;

// Of a rank whose session is kept by an agent.
WorldSetup with_agent(ServedHost& agent, int rank, int size) {
  WorldSetup setup;
  setup.rank = rank;
  setup.size = size;
  setup.session = agent.connect(rank);
  return setup;
}

TEST(WorldTest, ARankThatEndsBeforeItHasJoinedIsNotWaitedFor) {
  ServedHost agent(2);
  std::thread short_lived([&] { TestRank rank(1, agent.connect(1)); });  // its session only
  short_lived.join();
  const auto joined = World::join({.join_deadline = kTestDeadline}, with_agent(agent, 0, 2));
  EXPECT_EQ(joined.status().code(), base::Code::kUnavailable) << joined.status();
  EXPECT_NE(joined.status().message().find("rank 1 lost its connection"), std::string::npos) << joined.status();
}

TEST(WorldTest, RankZeroIsNotBlamedForALostAgent) {
  auto agent = std::make_unique<ServedHost>(2);
  std::shared_ptr<World> worlds[2];
  std::thread other([&] { worlds[0] = *World::join({}, with_agent(*agent, 0, 2)); });
  worlds[1] = *World::join({}, with_agent(*agent, 1, 2));
  other.join();
  agent.reset();
  EXPECT_FALSE(worlds[1]->wait_for_end(0, milliseconds(300)).has_value());
}

TEST(WorldTest, ADeadlineBeyondThatOfConnectionsMovesTheirs) {
  const auto alone = World::join({.deadline = std::chrono::minutes(5)}, {});
  ASSERT_TRUE(alone.ok()) << alone.status();
  EXPECT_GE((*alone)->tcp_options().silence, std::chrono::minutes(5));
}

}  // namespace
}  // namespace muster::collectives::world_test
