#include "agent/launch/limits.h"

#include <gtest/gtest.h>

namespace muster::agent {
namespace {

TEST(LimitsTest, ParsesNumbersAndUnlimited) {
  const auto nofile = parse_ulimit("nofile=4096");
  ASSERT_TRUE(nofile.ok()) << nofile.status();
  EXPECT_EQ(*nofile, (RlimitSetting{RLIMIT_NOFILE, 4096, 4096}));
  const auto core = parse_ulimit("core=0:unlimited");
  ASSERT_TRUE(core.ok()) << core.status();
  EXPECT_EQ(*core, (RlimitSetting{RLIMIT_CORE, 0, RLIM_INFINITY}));
}

TEST(LimitsTest, RefusesWhatItDoesNotKnow) {
  for (const char* text : {"nofile", "nofile=", "nofile=-1", "nofile=4k", "nofile=10:5", "=3", "files=3"}) {
    EXPECT_EQ(parse_ulimit(text).status().code(), base::Code::kInvalidArgument) << text;
  }
  EXPECT_NE(parse_ulimit("nofiles=3").status().message().find("'nofile'"), std::string::npos);
}

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
  EXPECT_EQ(limit_name(RLIMIT_STACK), "stack");
  EXPECT_EQ(limit_name(99), "resource 99");
}

}  // namespace
}  // namespace muster::agent
