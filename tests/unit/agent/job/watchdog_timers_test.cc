#include "agent/job/watchdog_timers.h"

#include <gtest/gtest.h>

namespace muster::agent::watchdog_timers_test {
namespace {

constexpr double kRelease = -1;

TEST(WatchdogTimers, ExpireAtTheirTime) {
  WatchdogTimers timers;
  EXPECT_FALSE(timers.next());
  EXPECT_TRUE(timers.apply({7, "a", 100.5, 9}));
  EXPECT_TRUE(timers.apply({8, "a", 90, 15}));
  EXPECT_EQ(timers.next(), 90);
  EXPECT_TRUE(timers.take_expired(89.9).empty());
  EXPECT_EQ(timers.take_expired(90), (std::vector<ExpiredTimer>{{8, "a", 15}}));
  EXPECT_EQ(timers.next(), 100.5);
  EXPECT_EQ(timers.take_expired(200), (std::vector<ExpiredTimer>{{7, "a", 9}}));
  EXPECT_EQ(timers.size(), 0u);
}

TEST(WatchdogTimers, AReleaseRemovesOneScope) {
  WatchdogTimers timers;
  timers.apply({7, "a", 10, 9});
  timers.apply({7, "b", 20, 9});
  EXPECT_TRUE(timers.apply({7, "a", kRelease, 0}));
  EXPECT_TRUE(timers.apply({9, "never set", kRelease, 0}));
  EXPECT_EQ(timers.next(), 20);
}

TEST(WatchdogTimers, ARequestReplacesTheTimerOfItsScope) {
  WatchdogTimers timers;
  timers.apply({7, "a", 10, 9});
  timers.apply({7, "a", 30, 15});
  EXPECT_TRUE(timers.take_expired(20).empty());
  EXPECT_EQ(timers.take_expired(30), (std::vector<ExpiredTimer>{{7, "a", 15}}));
}

TEST(WatchdogTimers, TheEarliestWithASignalDecidesForItsProcess) {
  WatchdogTimers timers;
  timers.apply({7, "first, without a signal", 1, 0});
  timers.apply({7, "third", 3, 9});
  timers.apply({7, "second", 2, 15});
  timers.apply({7, "not yet", 99, 9});
  timers.apply({8, "no signal", 1, -1});
  EXPECT_EQ(timers.take_expired(5), (std::vector<ExpiredTimer>{{7, "second", 15}}));
  EXPECT_EQ(timers.size(), 0u);  // all timers of both processes are forgotten, as torch does
}

TEST(WatchdogTimers, ForgetsAProcessThatHasEnded) {
  WatchdogTimers timers;
  timers.apply({7, "a", 1, 9});
  timers.apply({8, "a", 1, 9});
  timers.forget(7);
  EXPECT_EQ(timers.take_expired(5), (std::vector<ExpiredTimer>{{8, "a", 9}}));
}

TEST(WatchdogTimers, HaveALimit) {
  WatchdogTimers timers;
  for (std::size_t i = 0; i < WatchdogTimers::kMaxTimers; ++i) {
    ASSERT_TRUE(timers.apply({7, std::to_string(i), 10, 9}));
  }
  EXPECT_FALSE(timers.apply({7, "one more", 10, 9}));
  EXPECT_TRUE(timers.apply({7, "0", 11, 9}));  // known scopes still change
  EXPECT_TRUE(timers.apply({7, "0", kRelease, 0}));
  EXPECT_TRUE(timers.apply({7, "one more", 10, 9}));
}

}  // namespace
}  // namespace muster::agent::watchdog_timers_test
