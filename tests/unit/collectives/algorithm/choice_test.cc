// The choice between hosts follows what the algorithms cost over links of the measured speed, and never changes the
// bits of a result from run to run.
#include "collectives/algorithm/choice.h"

#include <gtest/gtest.h>

#include "collectives/algorithm/link_speed.h"
#include "tests/unit/collectives/transport/test_world.h"

namespace muster::collectives::choice_test {
namespace {

using enum AllreduceAlgorithm;

constexpr LinkSpeed kFast{.latency_us = 5, .message_us = 1, .bytes_per_us = 4'000};
constexpr LinkSpeed kFar{.latency_us = 2'000, .message_us = 2, .bytes_per_us = 1'000};
constexpr LinkSpeed kThin{.latency_us = 30, .message_us = 2, .bytes_per_us = 12};

AllreduceAlgorithm chosen(int hosts, std::size_t bytes, DType type, const LinkSpeed& link) {
  const Layout layout{.ranks = hosts, .hosts = hosts, .link = link};
  return choose_allreduce(
      layout, {.bytes = bytes, .type = type, .one_go = wants_one_go(type), .any_order = is_order_free(type)});
}

TEST(ChoiceTest, CostsAreThoseOfTheFormulas) {
  const LinkSpeed link{.latency_us = 10, .message_us = 1, .bytes_per_us = 100};
  // 4 ranks, 40,000 bytes: 400 us for a vector over a link, 1 us to reduce one.
  EXPECT_DOUBLE_EQ(predicted_us(kOneShot, 4, 40'000, link), 10 + 2 + 3 * 400 + 3);
  EXPECT_DOUBLE_EQ(predicted_us(kRecursiveDoubling, 4, 40'000, link), 2 * (10 + 400 + 1));
  EXPECT_DOUBLE_EQ(predicted_us(kPairwise, 4, 40'000, link), 2 * (10 + 2) + 1.5 * 400);
  EXPECT_DOUBLE_EQ(predicted_us(kRing, 4, 40'000, link), 6 * 10 + 1.5 * 400);
  // Beyond a power of two, two more steps.
  EXPECT_DOUBLE_EQ(predicted_us(kRecursiveDoubling, 5, 40'000, link), 4 * (10 + 400) + 3);
}

TEST(ChoiceTest, TwoHostsSendAllAtOnceAsLongAsReducingTakesLessThanALatency) {
  EXPECT_EQ(chosen(2, 4, DType::kF32, kFast), kOneShot);
  EXPECT_EQ(chosen(2, 64 << 10, DType::kF32, kFast), kOneShot);
  EXPECT_EQ(chosen(2, 4 << 20, DType::kF32, kFast), kRing);
  // The farther away, the later.
  EXPECT_EQ(chosen(2, 4 << 20, DType::kF32, kFar), kOneShot);
}

TEST(ChoiceTest, BordersFollowTheMeasuredSpeed) {
  // What goes at once over a fast link is better cut over a thin one.
  EXPECT_EQ(chosen(4, 8 << 10, DType::kF32, kFast), kOneShot);
  EXPECT_EQ(chosen(4, 8 << 10, DType::kF32, kThin), kPairwise);
  // Where each message costs much, fewer of them; of integers, whose order does not show.
  const LinkSpeed busy{.latency_us = 10, .message_us = 20, .bytes_per_us = 1'000};
  EXPECT_EQ(chosen(4, 1 << 10, DType::kI32, busy), kRecursiveDoubling);
  EXPECT_EQ(chosen(8, 64 << 20, DType::kF32, kThin), kRing);
}

// Must not depend on a measurement: the order of the inputs shows in the result.
TEST(ChoiceTest, TheOrderOfFloatsDependsOnNothingMeasured) {
  const auto takes_order_of_ranks = [](AllreduceAlgorithm one) { return one == kOneShot || one == kPairwise; };
  for (int hosts = 3; hosts <= 64; ++hosts) {
    for (std::size_t bytes = 4; bytes <= (64 << 20); bytes *= 2) {
      for (const DType type : {DType::kF32, DType::kF64, DType::kBF16}) {
        const AllreduceAlgorithm fast = chosen(hosts, bytes, type, kFast);
        for (const LinkSpeed& link : {kFar, kThin}) {
          const AllreduceAlgorithm other = chosen(hosts, bytes, type, link);
          EXPECT_TRUE(other == fast || (takes_order_of_ranks(other) && takes_order_of_ranks(fast)))
              << hosts << " hosts, " << bytes << " bytes: " << name_of(fast) << " or " << name_of(other);
        }
      }
    }
  }
}

TEST(ChoiceTest, SixteenBitFloatsAreReducedInOneGo) {
  for (std::size_t bytes = 2; bytes <= (64 << 20); bytes *= 2) {
    const AllreduceAlgorithm one = chosen(4, bytes, DType::kF16, kFast);
    EXPECT_TRUE(one == kOneShot || one == kPairwise) << bytes << ": " << name_of(one);
  }
}

TEST(ChoiceTest, ManyHostsDoNotSendEverythingToEveryone) {
  EXPECT_EQ(chosen(64, 64, DType::kF32, kFast), kRecursiveDoubling);
  EXPECT_EQ(chosen(64, 64 << 20, DType::kF32, kFast), kRing);
}

TEST(ChoiceTest, AForcedAlgorithmIsTakenWhereItCanBe) {
  const Layout layout{.ranks = 4, .hosts = 4, .link = kFast};
  EXPECT_EQ(choose_allreduce(layout, {.bytes = 4, .forced = kRing}), kRing);
  EXPECT_NE(choose_allreduce(layout, {.bytes = 4, .type = DType::kF16, .one_go = true, .forced = kRing}), kRing);
}

TEST(LinkSpeedTest, IsTheSameOnAllRanks) {
  for (const int ranks : {2, 3, 6}) {
    TestWorld world(Wire::kTcp, ranks);
    std::vector<LinkSpeed> speeds(static_cast<std::size_t>(ranks));
    const auto results = world.run([&](Exchange& exchange) {
      auto measured = measure_links(exchange);
      if (measured.ok()) speeds[static_cast<std::size_t>(exchange.rank())] = *measured;
      return measured.status();
    });
    for (std::size_t rank = 0; rank < results.size(); ++rank) {
      ASSERT_TRUE(results[rank].ok()) << results[rank];
      EXPECT_EQ(speeds[rank].latency_us, speeds[0].latency_us);
      EXPECT_EQ(speeds[rank].message_us, speeds[0].message_us);
      EXPECT_EQ(speeds[rank].bytes_per_us, speeds[0].bytes_per_us);
    }
    EXPECT_GT(speeds[0].latency_us, 0);
    EXPECT_GE(speeds[0].message_us, 0);
    EXPECT_GT(speeds[0].bytes_per_us, 0);
  }
}

TEST(LinkSpeedTest, FailsWithARankThatIsGone) {
  TestWorld world(Wire::kTcp, 2);
  world.leave(1);
  const auto results = world.run(
      [&](Exchange& exchange) { return exchange.rank() == 0 ? measure_links(exchange).status() : base::ok_status(); });
  EXPECT_EQ(results[0].code(), base::Code::kUnavailable) << results[0];
}

}  // namespace
}  // namespace muster::collectives::choice_test
