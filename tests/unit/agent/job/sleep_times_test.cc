#include "agent/job/sleep_times.h"

#include <unistd.h>

#include <gtest/gtest.h>

namespace muster::agent::sleep_times_test {
namespace {

using namespace std::chrono_literals;

class SleepTimesTest : public ::testing::Test {
 protected:
  void seen(std::optional<std::uint64_t> mark, base::Duration when, const std::string& state = "S", pid_t pid = 42) {
    mark_ = mark;
    times_.seen(3, pid, state, base::MonotonicTime() + when);
  }

  std::optional<std::uint64_t> mark_;
  SleepTimes times_{[this](pid_t) { return mark_; }};
};

TEST_F(SleepTimesTest, GrowsWhileTheThreadSleeps) {
  seen(7, 1s);
  EXPECT_FALSE(times_.of(3, 42).has_value()) << "it was seen once";
  seen(7, 3s);
  EXPECT_EQ(times_.of(3, 42), std::optional(2000ms));
  seen(7, 100s);
  EXPECT_EQ(times_.of(3, 42), std::optional(99'000ms));
  EXPECT_FALSE(times_.of(4, 42).has_value());
  EXPECT_FALSE(times_.of(3, 43).has_value()) << "another process of the rank";
}

TEST_F(SleepTimesTest, BeginsAnewAfterItRan) {
  seen(7, 1s);
  seen(8, 3s);
  EXPECT_FALSE(times_.of(3, 42).has_value());
  seen(8, 4s);
  EXPECT_EQ(times_.of(3, 42), std::optional(1000ms));
  seen(std::nullopt, 5s, "R");
  EXPECT_FALSE(times_.of(3, 42).has_value());
}

TEST_F(SleepTimesTest, BeginsAnewInAnotherStateOrProcess) {
  seen(7, 1s);
  seen(7, 2s, "T");
  EXPECT_FALSE(times_.of(3, 42).has_value());
  seen(7, 3s, "T", 43);
  EXPECT_FALSE(times_.of(3, 43).has_value());
}

TEST_F(SleepTimesTest, ForgetsRanksThatHaveEnded) {
  seen(7, 1s);
  seen(7, 2s);
  times_.keep_only({{3, 42}});
  EXPECT_TRUE(times_.of(3, 42).has_value());
  times_.keep_only({{4, 42}});
  EXPECT_FALSE(times_.of(3, 42).has_value());
}

TEST(SleepMark, IsUnknownOfARunningThread) {
  EXPECT_FALSE(sleep_mark_of(::getpid()).has_value());
  EXPECT_FALSE(sleep_mark_of(1073741823).has_value());
}

}  // namespace
}  // namespace muster::agent::sleep_times_test
