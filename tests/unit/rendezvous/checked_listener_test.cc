#include "rendezvous/checked_listener.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "base/descriptor_limit.h"
#include "tests/unit/rendezvous/loop_peer.h"
#include "tests/unit/support/few_descriptors.h"

namespace muster::rendezvous::checked_listener_test {
namespace {

using namespace std::chrono_literals;

class CheckedListenerTest : public ::testing::Test {
 protected:
  void listen(CheckedListenerLimits limits = {}) {
    base::UniqueFd fd = base::listen_any(0, 1).value();
    port_ = base::local_port(fd.get()).value();
    listener_ = std::make_unique<CheckedListener>(
        loop_, std::move(fd),
        [this](const ConnectionEnds&, std::function<void(bool)> done) { checks_.push_back(std::move(done)); },
        [this](base::UniqueFd peer) { accepted_.push_back(std::move(peer)); }, limits);
  }

  bool wait_for_checks(std::size_t count) {
    return run_until(loop_, [&] { return checks_.size() >= count; });
  }

  base::Loop loop_;
  std::uint16_t port_ = 0;
  std::vector<std::function<void(bool)>> checks_;
  std::vector<base::UniqueFd> accepted_;
  std::unique_ptr<CheckedListener> listener_;
};

TEST_F(CheckedListenerTest, HandsOnWhatIsAllowedInAnyOrder) {
  listen();
  LoopPeer first(loop_, port_);
  LoopPeer second(loop_, port_);
  LoopPeer third(loop_, port_);
  ASSERT_TRUE(wait_for_checks(3));
  EXPECT_TRUE(accepted_.empty());
  checks_[2](true);
  checks_[1](false);
  checks_[0](true);
  EXPECT_EQ(accepted_.size(), 2u);
  ASSERT_TRUE(run_until(loop_, [&] { return second.is_closed(); }));
  EXPECT_EQ(base::peer_address(accepted_[0].get()).value(), loopback());
  EXPECT_FALSE(first.is_closed() || third.is_closed());
  EXPECT_EQ(listener_->counts().allowed, 2u);
  EXPECT_EQ(listener_->counts().refused, 1u);
}

TEST_F(CheckedListenerTest, CheckThatDoesNotEndClosesItsConnection) {
  listen({.check_limit = 50ms});
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
  EXPECT_EQ(listener_->counts().dropped, 1u);
  checks_[0](true);
  EXPECT_TRUE(accepted_.empty()) << "too late";
}

TEST_F(CheckedListenerTest, OldestUncheckedMakesRoom) {
  listen({.max_unchecked = 2});
  LoopPeer first(loop_, port_);
  ASSERT_TRUE(wait_for_checks(1));
  LoopPeer second(loop_, port_);
  LoopPeer third(loop_, port_);
  ASSERT_TRUE(wait_for_checks(3));
  ASSERT_TRUE(run_until(loop_, [&] { return first.is_closed(); }));
  for (auto& check : checks_) check(true);
  EXPECT_EQ(accepted_.size(), 2u);
}

TEST_F(CheckedListenerTest, AnswerAfterItsEndIsIgnored) {
  listen();
  LoopPeer peer(loop_, port_);
  ASSERT_TRUE(wait_for_checks(1));
  listener_.reset();
  checks_[0](true);
  EXPECT_TRUE(accepted_.empty());
  ASSERT_TRUE(run_until(loop_, [&] { return peer.is_closed(); }));
}

TEST_F(CheckedListenerTest, WithoutDescriptorsItPausesAndGoesOn) {
  int reports = 0;
  listen({.on_starved = [&] { ++reports; }});
  LoopPeer peer(loop_, port_);
  testing_support::FewDescriptors none;
  EXPECT_TRUE(run_until(loop_, [&] { return listener_->counts().pauses > 0; }));
  EXPECT_LT(listener_->counts().pauses, 3u) << "it must not spin";
  // After the first pause it needs a descriptor to watch its socket again, and there is none.
  EXPECT_TRUE(run_until(loop_, [&] { return listener_->counts().pauses > 3; }));
  EXPECT_EQ(reports, 1);
  EXPECT_TRUE(checks_.empty());
  none.give_back();
  EXPECT_TRUE(wait_for_checks(1));
}

// Those that nobody vouches for give way; the rest of the process keeps its descriptors.
TEST_F(CheckedListenerTest, StrangersLeaveDescriptorsToTheRest) {
  listen();
  std::vector<std::unique_ptr<LoopPeer>> peers;
  for (int i = 0; i < 64; ++i) peers.push_back(std::make_unique<LoopPeer>(loop_, port_));
  const testing_support::FewDescriptors few(100);
  const std::size_t spare = base::spare_descriptors();
  ASSERT_GT(spare, 2u);
  EXPECT_TRUE(wait_for_checks(64));
  EXPECT_GT(listener_->counts().dropped, 0u);
  std::vector<base::UniqueFd> others;
  for (std::size_t i = 0; i + 2 < spare; ++i) others.push_back(base::UniqueFd(::dup(0)));
  for (const base::UniqueFd& other : others) EXPECT_TRUE(other.valid());
  checks_.back()(true);
  EXPECT_EQ(accepted_.size(), 1u) << "the newest is still there";
}

}  // namespace
}  // namespace muster::rendezvous::checked_listener_test
