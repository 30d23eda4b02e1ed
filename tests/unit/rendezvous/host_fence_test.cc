#include "rendezvous/host_fence.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "rendezvous/horovod_store.h"
#include "tests/unit/rendezvous/loop_peer.h"

namespace muster::rendezvous::host_fence_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Some hosts with one store, as if each had its keys' end of it.
class HostFenceTest : public ::testing::Test {
 protected:
  struct Outcome {
    int count = 0;
    base::Status status;
    HostFence::Blobs blobs;
  };

  void make_hosts(int count) {
    for (int i = 0; i < count; ++i) hosts_.push_back(std::make_unique<HostFence>(loop_, keys_, i));
  }
  std::shared_ptr<Outcome> enter(int host, const std::string& name, std::vector<int> members, std::string blob) {
    auto outcome = std::make_shared<Outcome>();
    hosts_[static_cast<std::size_t>(host)]->enter(name, std::move(members), std::move(blob),
                                                  [outcome](base::Result<HostFence::Blobs> result) {
                                                    ++outcome->count;
                                                    outcome->status = result.status();
                                                    if (result.ok()) outcome->blobs = *result;
                                                  });
    return outcome;
  }
  bool is_told(const std::shared_ptr<Outcome>& outcome) {
    return run_until(loop_, [&] { return outcome->count > 0; });
  }
  // Runs all that is due.
  void settle() {
    bool is_reached = false;
    loop_.post([this, &is_reached] { loop_.post([&is_reached] { is_reached = true; }); });
    ASSERT_TRUE(run_until(loop_, [&] { return is_reached; }));
  }

  base::Loop loop_;
  HorovodStore store_{{}, {.max_value_bytes = 64}};
  HorovodStoreKeys keys_{store_};
  std::vector<std::unique_ptr<HostFence>> hosts_;
};

TEST_F(HostFenceTest, GivesTheBlobsOfAllInTheirOrder) {
  make_hosts(3);
  const auto last = enter(2, "world", {0, 1, 2}, std::string("c\0c", 3));
  const auto first = enter(0, "world", {0, 1, 2}, "a");
  settle();
  EXPECT_EQ(last->count + first->count, 0) << "one has not entered";
  const auto middle = enter(1, "world", {0, 1, 2}, "");
  for (const auto& outcome : {first, middle, last}) {
    ASSERT_TRUE(is_told(outcome));
    EXPECT_THAT(outcome->blobs, ElementsAre("a", "", std::string("c\0c", 3)));
    EXPECT_EQ(outcome->count, 1);
  }
}

TEST_F(HostFenceTest, OneMemberNeedsNoKeysAndIsStillAnsweredFromTheLoop) {
  make_hosts(2);
  const auto outcome = enter(1, "alone", {1}, "mine");
  EXPECT_EQ(outcome->count, 0);
  ASSERT_TRUE(is_told(outcome));
  EXPECT_THAT(outcome->blobs, ElementsAre("mine"));
  EXPECT_EQ(store_.size(), 0u);
}

TEST_F(HostFenceTest, ANameIsASeriesOfWhichOnlyTheLastIsKept) {
  make_hosts(2);
  for (int round = 0; round < 5; ++round) {
    const std::string text = std::to_string(round);
    const auto fast = enter(0, "world", {0, 1}, "a" + text);
    const auto slow = enter(1, "world", {0, 1}, "b" + text);
    ASSERT_TRUE(is_told(fast));
    ASSERT_TRUE(is_told(slow));
    EXPECT_THAT(fast->blobs, ElementsAre("a" + text, "b" + text));
    EXPECT_THAT(slow->blobs, ElementsAre("a" + text, "b" + text));
    EXPECT_EQ(store_.size(), 2u) << "round " << round;
  }
}

TEST_F(HostFenceTest, AFastHostMayEnterTheNextFromWithinTheEndOfTheLast) {
  make_hosts(2);
  HostFence::Blobs second;
  hosts_[0]->enter("world", {0, 1}, "a1", [&](const base::Result<HostFence::Blobs>& one) {
    ASSERT_TRUE(one.ok());
    hosts_[0]->enter("world", {0, 1}, "a2", [&](base::Result<HostFence::Blobs> two) {
      ASSERT_TRUE(two.ok()) << two.status();
      second = *two;
    });
  });
  ASSERT_TRUE(is_told(enter(1, "world", {0, 1}, "b1")));
  ASSERT_TRUE(is_told(enter(1, "world", {0, 1}, "b2")));
  ASSERT_TRUE(run_until(loop_, [&] { return !second.empty(); }));
  EXPECT_THAT(second, ElementsAre("a2", "b2"));
}

TEST_F(HostFenceTest, OtherNamesAndOtherMembersDoNotMix) {
  make_hosts(3);
  const auto low = enter(0, "low", {0, 1}, "l0");
  const auto high = enter(1, "high", {1, 2}, "h1");
  const auto other = enter(2, "high", {1, 2}, "h2");
  ASSERT_TRUE(is_told(high));
  ASSERT_TRUE(is_told(other));
  EXPECT_THAT(high->blobs, ElementsAre("h1", "h2"));
  EXPECT_EQ(low->count, 0);
  ASSERT_TRUE(is_told(enter(1, "low", {0, 1}, "l1")));
  ASSERT_TRUE(is_told(low));
  EXPECT_THAT(low->blobs, ElementsAre("l0", "l1"));
}

TEST_F(HostFenceTest, RefusesWhatCannotBe) {
  make_hosts(2);
  const auto stranger = enter(0, "world", {1, 2}, "");
  const auto twice_named = enter(0, "world", {0, 0}, "");
  ASSERT_TRUE(is_told(stranger));
  ASSERT_TRUE(is_told(twice_named));
  EXPECT_EQ(stranger->status.code(), base::Code::kInvalidArgument);
  EXPECT_EQ(twice_named->status.code(), base::Code::kInvalidArgument);
  const auto open = enter(0, "world", {0, 1}, "");
  const auto again = enter(0, "world", {0, 1}, "");
  ASSERT_TRUE(is_told(again));
  EXPECT_EQ(again->status.code(), base::Code::kFailedPrecondition);
  EXPECT_EQ(open->count, 0);
}

TEST_F(HostFenceTest, ABlobThatTheKeysRefuseIsAnErrorThatNamesTheFence) {
  make_hosts(2);
  const auto outcome = enter(0, "world", {0, 1}, std::string(65, 'x'));
  ASSERT_TRUE(is_told(outcome));
  EXPECT_EQ(outcome->status.code(), base::Code::kInvalidArgument);
  EXPECT_THAT(outcome->status.message(), HasSubstr("could not meet at 'world'"));
  settle();
  EXPECT_EQ(outcome->count, 1);
}

TEST_F(HostFenceTest, NothingIsCalledAfterItsEnd) {
  make_hosts(2);
  const auto waiting = enter(0, "world", {0, 1}, "a");
  const auto due = enter(0, "alone", {0}, "a");
  hosts_[0].reset();
  const auto other = enter(1, "world", {0, 1}, "b");
  ASSERT_TRUE(is_told(other)) << "what was published stays";
  EXPECT_EQ(waiting->count + due->count, 0);
}

}  // namespace
}  // namespace muster::rendezvous::host_fence_test
