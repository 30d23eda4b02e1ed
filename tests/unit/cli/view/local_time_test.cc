// Times for people, in two zones.
#include "cli/view/local_time.h"

#include <chrono>
#include <cstdlib>
#include <ctime>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "base/env.h"

namespace muster::cli::local_time_test {
namespace {

class LocalTimeTest : public ::testing::Test {
 protected:
  LocalTimeTest() : former_(base::env_var("TZ")) {}
  ~LocalTimeTest() override {
    if (former_) {
      set_zone(former_->c_str());
    } else {
      ::unsetenv("TZ");
      ::tzset();
    }
  }

  static void set_zone(const char* zone) {
    ::setenv("TZ", zone, 1);
    ::tzset();
  }

  const base::WallTime time_ =
      std::chrono::system_clock::from_time_t(1'781'975'153) + std::chrono::microseconds(120'045);

 private:
  const std::optional<std::string> former_;
};

TEST_F(LocalTimeTest, HasTheZone) {
  set_zone("CET-1CEST,M3.5.0,M10.5.0/3");
  EXPECT_EQ(format_local_time(time_), "2026-06-20 19:05:53 +0200");
  EXPECT_EQ(format_local_micros(time_), "2026-06-20 19:05:53.120045 +0200");
  EXPECT_EQ(format_local_clock(time_), "19:05:53");
  EXPECT_EQ(format_local_zone(time_), "+0200");
  set_zone("CST6CDT,M3.2.0,M11.1.0");
  EXPECT_EQ(format_local_time(time_), "2026-06-20 12:05:53 -0500");
}

TEST_F(LocalTimeTest, CutsToWholeSeconds) {
  set_zone("UTC0");
  const base::WallTime late = std::chrono::system_clock::from_time_t(59) + std::chrono::milliseconds(999);
  EXPECT_EQ(format_local_clock(late), "00:00:59");
  EXPECT_EQ(format_local_micros(late), "1970-01-01 00:00:59.999000 +0000");
}

}  // namespace
}  // namespace muster::cli::local_time_test
