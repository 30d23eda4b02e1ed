#include "agent/launch/limits.h"

#include <gtest/gtest.h>

namespace muster::agent::limits_test {
namespace {

TEST(LimitsTest, DefaultsRaiseSoftToHard) {
  struct rlimit now {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &now), 0);
  const auto settings = default_limits();
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(settings[0], (RlimitSetting{RLIMIT_NOFILE, now.rlim_max, now.rlim_max}));
  EXPECT_EQ(settings[1].resource, static_cast<int>(RLIMIT_MEMLOCK));
}

TEST(LimitsTest, MergeReplacesTheSameResource) {
  const auto merged =
      merge_limits({{RLIMIT_NOFILE, 1, 2}, {RLIMIT_CORE, 3, 4}}, {{RLIMIT_CORE, 5, 6}, {RLIMIT_CPU, 7, 8}});
  const std::vector<RlimitSetting> expected{{RLIMIT_NOFILE, 1, 2}, {RLIMIT_CORE, 5, 6}, {RLIMIT_CPU, 7, 8}};
  EXPECT_EQ(merged, expected);
}

}  // namespace
}  // namespace muster::agent::limits_test
