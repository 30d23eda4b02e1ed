#include "agent/job/peer_owners.h"

#include <gtest/gtest.h>

namespace muster::agent::peer_owners_test {
namespace {

using namespace std::chrono_literals;

// 192.0.2.0/24 is for documentation, so no host has such an address.
rendezvous::ConnectionEnds from(const std::string& peer, std::uint16_t port) {
  return {*base::IpAddress::parse(peer), port, *base::IpAddress::parse("192.0.2.1"), 7};
}

class PeerOwnersTest : public ::testing::Test {
 protected:
  PeerOwners make(PeerOwnersLimits limits = {}) {
    return {{}, [this](v1::OwnerQuestion question) { asked_.push_back(std::move(question)); }, limits};
  }
  void connect(PeerOwners& owners, const std::string& peer, std::uint16_t port) {
    owners.check()(from(peer, port), [this, port](bool allowed) { ended_ += fmt::format("{}:{} ", port, allowed); });
  }
  static void answer(PeerOwners& owners, const v1::OwnerQuestion& question, bool allowed) {
    v1::OwnerAnswer answer;
    answer.set_id(question.id());
    answer.set_allowed(allowed);
    owners.answered(answer);
  }

  std::vector<v1::OwnerQuestion> asked_;
  std::string ended_;
};

TEST_F(PeerOwnersTest, AsksTheLauncherAboutPeersOfOtherHosts) {
  PeerOwners owners = make();
  connect(owners, "192.0.2.9", 1);
  connect(owners, "192.0.2.9", 2);
  ASSERT_EQ(asked_.size(), 2u);
  EXPECT_EQ(asked_[0].peer(), "192.0.2.9");
  EXPECT_EQ(asked_[0].peer_port(), 1u);
  answer(owners, asked_[1], true);
  answer(owners, asked_[0], false);
  answer(owners, asked_[0], true);
  EXPECT_EQ(ended_, "2:true 1:false ");
  EXPECT_EQ(owners.questions(), 0u);
}

TEST_F(PeerOwnersTest, KeepsABoundedNumberOfQuestionsWithoutALauncher) {
  PeerOwners owners = make({.max_questions = 100, .max_of_peer = 10});
  connect(owners, "192.0.2.8", 1);
  for (int i = 0; i < 5000; ++i) connect(owners, "192.0.2.9", 2);
  EXPECT_EQ(owners.questions(), 11u);
  EXPECT_EQ(ended_.find("1:"), std::string::npos) << "the flood of one host is no other's";
  for (int i = 0; i < 250; ++i) {
    for (std::uint16_t port = 10; port < 20; ++port) connect(owners, fmt::format("2001:db8::{:x}", i), port);
  }
  EXPECT_EQ(owners.questions(), 100u);
}

TEST_F(PeerOwnersTest, AsksAgainWhenALauncherIsThere) {
  PeerOwners owners = make();
  connect(owners, "192.0.2.9", 1);
  connect(owners, "192.0.2.9", 2);
  answer(owners, asked_[0], true);
  asked_.clear();
  owners.ask_again();
  ASSERT_EQ(asked_.size(), 1u);
  EXPECT_EQ(asked_[0].peer_port(), 2u);
  answer(owners, asked_[0], true);
  EXPECT_EQ(ended_, "1:true 2:true ");
}

TEST_F(PeerOwnersTest, RefusesPeersThatAreOnNoHostOfTheJob) {
  base::Loop loop;
  OwnerPeers others(loop, [](const rendezvous::ConnectionEnds&) { return true; });
  v1::Launch launch;
  launch.add_peers()->add_addresses("192.0.2.9");
  others.add_peers(launch.peers());
  PeerOwners owners = make();
  owners.ask_others(others);
  connect(owners, "192.0.2.9", 1);
  connect(owners, "192.0.2.8", 2);
  EXPECT_EQ(ended_, "2:false ");
  EXPECT_EQ(asked_.size(), 1u);
}

TEST_F(PeerOwnersTest, ForgetsQuestionsWhoseConnectionsAreClosed) {
  PeerOwners owners = make({.time_limit = 0s});
  connect(owners, "192.0.2.9", 1);
  asked_.clear();
  owners.ask_again();
  EXPECT_TRUE(asked_.empty());
  EXPECT_EQ(ended_, "1:false ");
}

}  // namespace
}  // namespace muster::agent::peer_owners_test
