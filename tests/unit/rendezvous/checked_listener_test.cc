#include "rendezvous/checked_listener.h"

#include <sys/resource.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/unit/rendezvous/loop_peer.h"

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
  listen();
  LoopPeer peer(loop_, port_);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = ::dup(0);  // the lowest number that is free
  ASSERT_GE(next, 0);
  ::close(next);
  const rlimit none{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_TRUE(run_until(loop_, [&] { return listener_->counts().pauses > 0; }));
  EXPECT_LT(listener_->counts().pauses, 3u) << "it must not spin";
  EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(wait_for_checks(1));
}

}  // namespace
}  // namespace muster::rendezvous::checked_listener_test
