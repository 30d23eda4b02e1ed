#include "agent/proc/process_environment.h"

#include <unistd.h>

#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"

namespace muster::agent::process_environment_test {
namespace {

TEST(ProcessEnvironment, FindsWholeNames) {
  using namespace std::string_literals;
  const ProcessEnvironment environment("RANK=3\0RANKS=8\0EMPTY=\0=odd\0RANK=4\0no value\0LAST=x"s);
  EXPECT_EQ(environment.get("RANK"), "3") << "the first entry counts";
  EXPECT_EQ(environment.get("EMPTY"), "");
  EXPECT_EQ(environment.get("LAST"), "x") << "the kernel may cut the last zero byte";
  EXPECT_EQ(environment.get("RAN"), std::nullopt);
  EXPECT_EQ(environment.get("no value"), std::nullopt);
  EXPECT_EQ(ProcessEnvironment().get("RANK"), std::nullopt);
}

TEST(ProcessEnvironment, ReadsThatOfAProcess) {
  const testing_support::StandingChild child(2, [](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::execl("/usr/bin/env", "env", "-i", "MASTER_PORT=29500", "/bin/sh", "-c", "echo up; kill -STOP $$", nullptr);
  });
  ASSERT_TRUE(child.is_ready());
  EXPECT_EQ(read_environment(child.pid()).get("MASTER_PORT"), "29500");
  EXPECT_EQ(read_environment(-1).get("MASTER_PORT"), std::nullopt);
}

}  // namespace
}  // namespace muster::agent::process_environment_test
