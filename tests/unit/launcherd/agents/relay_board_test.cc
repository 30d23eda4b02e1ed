#include "launcherd/agents/relay_board.h"

#include <map>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::relay_board_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_support::turn_until;

std::vector<int> agents(int first, int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), first);
  return all;
}

// The port of a relay is its agent's number.
v1::Relay relay(int agent) {
  v1::Relay at;
  at.add_addresses("10.0.0.1");
  at.set_port(agent);
  return at;
}

constexpr int kUndecided = -2;
constexpr int kDirect = -1;
constexpr std::chrono::milliseconds kPatience{300};

class RelayBoardTest : public ::testing::Test {
 protected:
  void place(int agent) {
    board_.place(agent, [this, agent](const std::optional<v1::Relay>& parent) {
      EXPECT_FALSE(parents_.contains(agent)) << "it is called once";
      parents_[agent] = parent ? parent->port() : kDirect;
    });
  }
  int parent(int agent) const {
    const auto found = parents_.find(agent);
    return found == parents_.end() ? kUndecided : found->second;
  }

  base::Loop loop_;
  RelayBoard board_{loop_, 64, kPatience};
  std::map<int, int> parents_;
};

TEST(RelaysAmong, IsTheRootAndAtMostTheFanout) {
  EXPECT_EQ(relays_among(0, 64), 0);
  EXPECT_EQ(relays_among(64, 64), 0);
  EXPECT_EQ(relays_among(65, 64), 9);
  EXPECT_EQ(relays_among(1'000, 64), 32);
  EXPECT_EQ(relays_among(4'096, 64), 64);
  EXPECT_EQ(relays_among(10'000, 64), 64);
  EXPECT_EQ(relays_among(3, 2), 2);
  EXPECT_EQ(relays_among(10'000, 0), 0) << "without relays";
}

TEST_F(RelayBoardTest, FewAgentsConnectDirectly) {
  EXPECT_THAT(board_.begin(agents(0, 64)), IsEmpty());
  for (int agent = 0; agent < 64; ++agent) place(agent);
  for (int agent = 0; agent < 64; ++agent) EXPECT_EQ(parent(agent), kDirect);
  EXPECT_EQ(board_.parent_of(5), kDirect);
}

TEST_F(RelayBoardTest, SpreadsRelaysOverTheList) {
  EXPECT_THAT(board_.begin(agents(0, 100)), ElementsAre(0, 10, 20, 30, 40, 50, 60, 70, 80, 90));
  for (const int agent : {0, 10, 90}) {
    place(agent);
    EXPECT_EQ(parent(agent), kDirect) << "a relay connects to the launcher";
  }
  for (int agent = 0; agent < 100; agent += 10) board_.relay_up(agent, relay(agent));
  for (const int agent : {1, 9, 11, 55, 99}) {
    place(agent);
    EXPECT_EQ(parent(agent), agent / 10 * 10) << "the nearest relay before it";
    EXPECT_EQ(board_.parent_of(agent), parent(agent));
  }
}

TEST_F(RelayBoardTest, AgentWaitsUntilItsRelayIsUp) {
  board_.begin(agents(0, 100));
  place(15);
  place(25);
  EXPECT_EQ(parent(15), kUndecided);
  board_.relay_up(20, relay(20));
  EXPECT_EQ(parent(15), kUndecided) << "its own relay may still come";
  EXPECT_EQ(parent(25), 20);
  board_.relay_up(10, relay(10));
  EXPECT_EQ(parent(15), 10);
}

TEST_F(RelayBoardTest, ChildOfALostRelayGetsTheLeastLoadedOfTheOthers) {
  board_.begin(agents(0, 100));
  for (const int agent : {20, 30}) board_.relay_up(agent, relay(agent));
  for (const int agent : {21, 22, 31}) place(agent);
  place(15);
  place(16);
  place(17);
  board_.lost(10);
  EXPECT_EQ(parent(15), 30);
  EXPECT_EQ(std::vector<int>({parent(16), parent(17)}), (std::vector<int>{20, 30}));
  place(18);
  EXPECT_EQ(parent(18), 20) << "also later";
}

TEST_F(RelayBoardTest, ChildWaitsForAnyRelayThatMayStillCome) {
  board_.begin(agents(0, 100));
  place(15);
  board_.lost(10);
  EXPECT_EQ(parent(15), kUndecided);
  board_.relay_up(70, relay(70));
  EXPECT_EQ(parent(15), 70);
}

TEST_F(RelayBoardTest, WithoutAnyRelayTheAgentConnectsDirectly) {
  board_.begin(agents(0, 100));
  place(15);
  for (int agent = 0; agent < 100; agent += 10) {
    EXPECT_EQ(parent(15), kUndecided);
    board_.lost(agent);
  }
  EXPECT_EQ(parent(15), kDirect);
  place(16);
  EXPECT_EQ(parent(16), kDirect);
}

TEST_F(RelayBoardTest, WaitsForARelayOnlyForItsPatience) {
  board_.begin(agents(0, 100));
  const base::MonotonicTime begun = base::monotonic_now();
  place(15);
  place(25);
  RelayBoard without(loop_, 2, kPatience);
  bool is_direct = false;
  without.begin(agents(0, 100));
  without.place(99, [&](const std::optional<v1::Relay>& parent) { is_direct = !parent; });
  board_.relay_up(30, relay(30));
  EXPECT_EQ(parent(15), kUndecided);
  turn_until(loop_, [&] { return parents_.size() == 2 && is_direct; });
  EXPECT_EQ(parent(15), 30);
  EXPECT_EQ(parent(25), 30);
  EXPECT_GE(base::monotonic_now() - begun, kPatience);
}

// The patience of agents that come later is their own.
TEST_F(RelayBoardTest, PatienceBeginsAgainForLaterAgents) {
  board_.begin(agents(0, 100));
  place(15);
  turn_until(loop_, [&] { return parent(15) == kDirect; });
  place(16);
  EXPECT_EQ(parent(16), kUndecided);
  board_.relay_up(10, relay(10));
  EXPECT_EQ(parent(16), 10);
}

// An elastic job, or a pool: agents start in several waves.
TEST_F(RelayBoardTest, LaterWavesGetTheMissingRelays) {
  EXPECT_THAT(board_.begin(agents(0, 60)), IsEmpty());
  EXPECT_THAT(board_.begin(agents(60, 40)), ElementsAre(60, 64, 68, 72, 76, 80, 84, 88, 92, 96));
  EXPECT_THAT(board_.begin(agents(100, 10)), ElementsAre(100)) << "11 of 110";
  EXPECT_THAT(board_.begin({200}), IsEmpty());
  board_.relay_up(100, relay(100));
  place(200);
  EXPECT_EQ(parent(200), 100);
  board_.lost(100);
  EXPECT_THAT(board_.begin({201}), ElementsAre(201)) << "it takes the place of the lost one";
}

TEST_F(RelayBoardTest, AgentsOfAnEarlierLauncherCount) {
  for (int agent = 0; agent < 90; ++agent) board_.joined(agent);
  EXPECT_THAT(board_.begin(agents(90, 10)), ::testing::SizeIs(10));
}

TEST(RelayOf, NamesAddressesThatOtherHostsCanReach) {
  v1::Hello hello;
  hello.set_relay_port(7100);
  hello.set_ssh_server_address("10.0.0.3");
  for (const char* address : {"127.0.0.1", "::1", "10.0.0.3", "192.168.1.3", "fd00::3"}) {
    hello.add_interfaces()->set_address(address);
  }
  const v1::Relay at = relay_of(hello);
  EXPECT_EQ(at.port(), 7100);
  EXPECT_THAT(at.addresses(), ElementsAre("10.0.0.3", "192.168.1.3", "fd00::3"));
  for (int i = 0; i < 20; ++i) hello.add_interfaces()->set_address("10.1.0." + std::to_string(i));
  EXPECT_EQ(relay_of(hello).addresses_size(), 8);
  EXPECT_TRUE(relay_of(v1::Hello()).addresses().empty());
}

}  // namespace
}  // namespace muster::launcherd::relay_board_test
