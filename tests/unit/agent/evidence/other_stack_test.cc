#include "agent/evidence/other_stack.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/standing_child.h"
#include "tests/unit/support/temp_dir.h"

namespace muster::agent::other_stack_test {
namespace {

using ::testing::HasSubstr;

class OtherStackTest : public ::testing::Test {
 protected:
  OtherStack read(pid_t pid) const {
    return read_other_stack(dir_.path(), read_process(pid).value(),
                            std::chrono::steady_clock::now() + std::chrono::seconds(20));
  }

  const testing_support::TempDir dir_;
};

TEST_F(OtherStackTest, TriesFaulthandlerThenPySpy) {
  // A stand-in for py-spy.
  const std::string program = dir_.write(
      "py-spy", "#!/bin/sh\necho \"[{\\\"os_thread_id\\\": $5, \\\"frames\\\": [{\\\"name\\\": \\\"f\\\"}]}]\"\n");
  ::chmod(program.c_str(), 0700);
  const auto sleeper = [](const std::string& path) {
    return [path](int output) {
      ::dup2(output, STDOUT_FILENO);
      ::setenv("PATH", path.c_str(), 1);
      ::execl("/bin/sh", "sh", "-c", "echo up; exec /bin/sleep 1000", nullptr);
    };
  };
  const testing_support::StandingChild with(3, sleeper(dir_.path() + ":/usr/bin"));
  const testing_support::StandingChild without(3, sleeper("/usr/bin"));
  ASSERT_TRUE(with.is_ready() && without.is_ready());
  const OtherStack spied = read(with.pid());
  EXPECT_EQ(spied.source, "py-spy") << spied.problem;
  ASSERT_EQ(spied.frames.size(), 1U);
  const OtherStack none = read(without.pid());
  EXPECT_EQ(none.source, "");
  EXPECT_THAT(none.problem, HasSubstr("muster.enable_stack_dumps()"));
}

TEST(OtherStack, BecomesThatOfTheMainThread) {
  PythonStacks stacks{.version = {}, .threads = {}, .problem = "its memory cannot be read"};
  EXPECT_TRUE(needs_other_stack(stacks));
  add_other_stack({.problem = "py-spy cannot read the process either"}, 42, stacks);
  EXPECT_EQ(stacks.problem, "its memory cannot be read; py-spy cannot read the process either");
  add_other_stack({.source = "py-spy", .frames = {{.function = "f", .file = "x.py", .line = 3}}}, 42, stacks);
  EXPECT_EQ(stacks.problem, "");
  ASSERT_EQ(stacks.threads.size(), 1U);
  EXPECT_EQ(stacks.threads[0].tid, 42);
  EXPECT_FALSE(needs_other_stack(stacks));
  EXPECT_FALSE(needs_other_stack({}));
}

}  // namespace
}  // namespace muster::agent::other_stack_test
