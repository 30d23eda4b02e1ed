// A world that somebody does not join, or whose session ends.
#include "collectives/group/world.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/ids.h"
#include "base/net.h"
#include "collectives/group/communicator.h"
#include "collectives/join/alone.h"
#include "collectives/join/member.h"
#include "collectives/join/place.h"
#include "tests/unit/collectives/join/session_world.h"

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

TEST(WorldTest, TheRankThatFailedIsNamedWhoeverIsWaitedFor) {
  ServedHost agent(3);
  std::thread short_lived([&] { TestRank rank(2, agent.connect(2)); });
  short_lived.join();
  Failure why;
  const auto joined = World::join({.join_deadline = kTestDeadline}, with_agent(agent, 0, 3), &why);
  EXPECT_EQ(joined.status().code(), base::Code::kUnavailable) << joined.status();
  EXPECT_NE(joined.status().message().find("rank 2 lost its connection"), std::string::npos) << joined.status();
  EXPECT_EQ(why.code, base::Code::kUnavailable);
  EXPECT_EQ(why.rank, 2);
}

TEST(WorldTest, ARankThatDoesNotJoinIsNamed) {
  ServedHost agent(2);
  Failure why;
  const auto joined = World::join({.join_deadline = milliseconds(300)}, with_agent(agent, 0, 2), &why);
  EXPECT_EQ(joined.status().code(), base::Code::kDeadlineExceeded) << joined.status();
  EXPECT_EQ(why.code, base::Code::kDeadlineExceeded);
  EXPECT_EQ(why.rank, 1);
}

// Rank 2 dies as soon as the world has formed. Rank 0 hears of it and gives up before it has shared memory with rank 1.
TEST(WorldTest, ARankThatGivesUpIsNotBlamedForTheOneThatDied) {
  ServedHost agent(3);
  auto victim = std::make_unique<TestRank>(2, agent.connect(2));
  ASSERT_TRUE(victim->status().ok()) << victim->status();
  std::shared_ptr<World> worlds[2];
  std::thread other([&] { worlds[0] = *World::join({}, with_agent(agent, 0, 3)); });
  std::thread one([&] { worlds[1] = *World::join({}, with_agent(agent, 1, 3)); });
  const std::string address = "127.0.0.1";
  const Member member{
      .rank = 2, .host = "h", .place = own_place(), .pid = 4711, .address = address, .port = 9, .unix_name = "none"};
  EXPECT_TRUE((*victim)->put("0/member/2", encode(member), kTestDeadline).ok());
  other.join();
  one.join();
  victim.reset();
  ASSERT_TRUE(worlds[1]->wait_for_end(2, kTestDeadline).has_value());
  worlds[0].reset();
  Failure why;
  const auto made = Communicator::of_world(worlds[1], &why);
  EXPECT_EQ(made.status().code(), base::Code::kUnavailable) << made.status();
  EXPECT_EQ(why.rank, 2) << made.status();
  EXPECT_NE(made.status().message().find("rank 2 (h, pid 4711) lost its connection"), std::string::npos)
      << made.status();
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
