#include "launcherd/output/byte_rate.h"

#include <gtest/gtest.h>

namespace muster::launcherd::byte_rate_test {
namespace {

using namespace std::chrono_literals;

TEST(ByteRate, OverTheLastTwoSeconds) {
  base::FakeClock clock;
  ByteRate rate;
  EXPECT_EQ(rate.per_second(), 0);
  rate.sample(1'000, clock.now());  // the first value of the counter does not matter
  EXPECT_EQ(rate.per_second(), 0);
  clock.advance(500ms);
  rate.sample(9'000, clock.now());
  EXPECT_EQ(rate.per_second(), 0);
  clock.advance(1'500ms);
  rate.sample(11'000, clock.now());
  EXPECT_EQ(rate.per_second(), 5'000);
  clock.advance(4s);  // no sample for a while
  rate.sample(12'000, clock.now());
  EXPECT_EQ(rate.per_second(), 250);
  clock.advance(2s);
  rate.sample(12'000, clock.now());
  EXPECT_EQ(rate.per_second(), 0);
}

}  // namespace
}  // namespace muster::launcherd::byte_rate_test
