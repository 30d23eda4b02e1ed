#include "agent/commands/limited_read.h"

#include <future>
#include <memory>

#include <gtest/gtest.h>

namespace muster::agent::limited_read_test {
namespace {

using namespace std::chrono_literals;

TEST(LimitedRead, ReturnsTheResult) {
  const auto owned = read_within(1min, [value = std::make_unique<int>(7)] { return *value; });
  EXPECT_EQ(owned, std::optional(7));
}

TEST(LimitedRead, GivesUpAReadThatBlocks) {
  std::promise<void> release;
  std::promise<void> over;
  const auto result = read_within(1ms, [wait = release.get_future(), &over]() mutable {
    wait.wait();
    over.set_value_at_thread_exit();
    return 7;
  });
  EXPECT_FALSE(result.has_value());
  release.set_value();
  over.get_future().wait();
}

}  // namespace
}  // namespace muster::agent::limited_read_test
