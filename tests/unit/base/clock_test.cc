#include "base/clock.h"

#include <gtest/gtest.h>

namespace muster::base::clock_test {
namespace {

using namespace std::chrono_literals;

TEST(FormatRfc3339, IsUtcWithMicroseconds) {
  EXPECT_EQ(format_rfc3339(WallTime()), "1970-01-01T00:00:00.000000Z");
  EXPECT_EQ(format_rfc3339(WallTime(1781975153s + 123us)), "2026-06-20T17:05:53.000123Z");
  EXPECT_EQ(format_rfc3339(WallTime(951782400s - 1us)), "2000-02-28T23:59:59.999999Z");
}

TEST(FakeClock, MovesBothTimesOnlyWhenTold) {
  FakeClock clock;
  const MonotonicTime before = clock.now();
  const WallTime wall = clock.wall();
  EXPECT_EQ(clock.now(), before);
  clock.advance(1500ms);
  EXPECT_EQ(clock.now() - before, 1500ms);
  EXPECT_EQ(clock.wall() - wall, 1500ms);
}

TEST(SystemClock, MonotonicTimeNeverGoesBack) {
  const SystemClock clock;
  const MonotonicTime before = clock.now();
  EXPECT_LE(before, clock.now());
  EXPECT_GT(clock.wall(), WallTime(1700000000s));
}

}  // namespace
}  // namespace muster::base::clock_test
