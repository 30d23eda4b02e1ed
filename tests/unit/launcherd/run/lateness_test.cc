#include "launcherd/run/lateness.h"

#include <gtest/gtest.h>

namespace muster::launcherd::lateness_test {
namespace {

constexpr std::int64_t kMilli = 1'000'000;

// Four ranks on two hosts.
class LatenessTest : public ::testing::Test {
 protected:
  LatenessTest() { lateness_.begin({"n1", "n1", "n2", "n2"}); }

  // All ranks come to the operation at 0, `rank` comes `by` later. Returns whether it was compared.
  bool add(std::uint64_t number, int rank, std::int64_t by, std::int64_t uncertainty_ns = 0) {
    bool is_compared = false;
    for (int each = 0; each < 4; ++each) {
      is_compared = lateness_.add(
          {.rank = each, .number = number, .ns = each == rank ? by : each, .uncertainty_ns = uncertainty_ns});
    }
    return is_compared;
  }

  Lateness lateness_;
};

TEST_F(LatenessTest, CountsTheRankThatComesLast) {
  for (std::uint64_t number = 1; number <= 8; ++number) EXPECT_TRUE(add(number, 3, 48 * kMilli));
  EXPECT_TRUE(add(9, 0, 10 * kMilli));
  EXPECT_TRUE(add(10, 0, 0));
  const auto latest = lateness_.latest();
  ASSERT_EQ(latest.size(), 2U);
  EXPECT_EQ(latest[0].rank(), 3);
  EXPECT_EQ(latest[0].host(), "n2");
  EXPECT_EQ(latest[0].late(), 8);
  EXPECT_EQ(latest[0].operations(), 10);
  EXPECT_EQ(latest[0].median_us() / 1000, 47);
  EXPECT_NEAR(latest[0].score(), 0.2, 1e-9);
  EXPECT_EQ(latest[1].rank(), 0);
  const auto host = lateness_.late_host();
  ASSERT_TRUE(host);
  EXPECT_EQ(host->host, "n2");
  EXPECT_EQ(host->late, 8);
}

TEST_F(LatenessTest, IgnoresDifferencesBelowTheUncertainty) {
  add(1, 3, 150'000);
  add(2, 3, 5 * kMilli, 6 * kMilli);
  EXPECT_TRUE(lateness_.latest().empty());
}

TEST_F(LatenessTest, NamesNoHostThatIsLateInLessThanHalf) {
  for (std::uint64_t number = 1; number <= 20; ++number) add(number, number % 2 == 0 ? 3 : 1, 9 * kMilli);
  EXPECT_FALSE(lateness_.late_host());
}

TEST_F(LatenessTest, NamesNoHostForLittleTimeOrFewOperations) {
  for (std::uint64_t number = 1; number <= 20; ++number) add(number, 3, kMilli / 2);
  EXPECT_FALSE(lateness_.late_host());
  lateness_.begin({"n1", "n1", "n2", "n2"});
  for (std::uint64_t number = 1; number <= 5; ++number) add(number, 3, 50 * kMilli);
  EXPECT_FALSE(lateness_.late_host());
}

TEST_F(LatenessTest, RanksOfOneHostAreComparedButNoHostIsNamed) {
  lateness_.begin({"n1", "n1", "n1", "n1"});
  for (std::uint64_t number = 1; number <= 20; ++number) add(number, 2, 50 * kMilli);
  EXPECT_EQ(lateness_.latest().front().rank(), 2);
  EXPECT_FALSE(lateness_.late_host());
}

TEST_F(LatenessTest, ComparesOnlyTheSameOperationOfTheSameWorld) {
  EXPECT_FALSE(lateness_.add({.rank = 0, .world = 1, .number = 4, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 1, .world = 1, .number = 4, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 2, .world = 1, .number = 8, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 2, .world = 2, .number = 4, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 3, .world = 1, .is_beat = true, .number = 4, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 2, .world = 1, .number = 4, .ns = 1}));
  EXPECT_TRUE(lateness_.add({.rank = 3, .world = 1, .number = 4, .ns = 1}));
}

TEST_F(LatenessTest, ARepeatedReportCountsOnce) {
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(lateness_.add({.rank = 0, .number = 1, .ns = 1}));
}

TEST_F(LatenessTest, ForgetsTheOldestReportsThatNeverComplete) {
  for (std::uint64_t number = 1; number <= 10'000; ++number) lateness_.add({.rank = 0, .number = number, .ns = 1});
  for (int rank = 1; rank < 4; ++rank) EXPECT_FALSE(lateness_.add({.rank = rank, .number = 1, .ns = 1}));
  for (int rank = 1; rank < 3; ++rank) EXPECT_FALSE(lateness_.add({.rank = rank, .number = 9'999, .ns = 1}));
  EXPECT_TRUE(lateness_.add({.rank = 3, .number = 9'999, .ns = 1}));
}

TEST_F(LatenessTest, IgnoresUnknownRanks) {
  EXPECT_FALSE(lateness_.add({.rank = -1, .number = 1, .ns = 1}));
  EXPECT_FALSE(lateness_.add({.rank = 4, .number = 1, .ns = 1}));
}

TEST_F(LatenessTest, ShowsAtMostTenRanks) {
  lateness_.begin(std::vector<std::string>(50, "n1"));
  for (int late = 0; late < 50; ++late) {
    for (int rank = 0; rank < 50; ++rank) {
      lateness_.add({.rank = rank, .number = static_cast<std::uint64_t>(late), .ns = rank == late ? 9 * kMilli : 0});
    }
  }
  EXPECT_EQ(lateness_.latest().size(), Lateness::kShownRanks);
}

}  // namespace
}  // namespace muster::launcherd::lateness_test
