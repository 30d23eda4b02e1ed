#include "agent/commands/stack_report.h"

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/stacks/target_memory.h"
#include "proto/muster/v1/job.pb.h"
#include "tests/unit/agent/commands/written_frames.h"
#include "tests/unit/support/standing_child.h"

namespace muster::agent::stack_report_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPython = "/usr/bin/python3";

// A Python program that has printed "up" and sleeps.
class Sleeper : public testing_support::StandingPython {
 public:
  explicit Sleeper(const char* script = "import time\nprint('up', flush=True); time.sleep(1000)")
      : StandingPython(kPython, "-c", script) {}
};

// Runs report_stacks() in a process of its own, and returns what it writes.
std::vector<v1::ProcessStack> report(const std::vector<std::string>& arguments) {
  return testing_support::written_frames<v1::ProcessStack>([&] { return report_stacks(arguments); });
}

class StackReport : public ::testing::Test {
 protected:
  void SetUp() override {
    if (::access(kPython, X_OK) != 0) GTEST_SKIP() << "no " << kPython;
    ASSERT_TRUE(sleeper_.is_ready());
  }

  const Sleeper sleeper_;
  const std::string target_ = fmt::format("3:{}", sleeper_.pid());
};

TEST_F(StackReport, HasPythonStacksAndNoNativeOnes) {
  const auto processes = report({target_});
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].rank(), 3);
  EXPECT_TRUE(processes[0].python().starts_with("3.")) << processes[0].python();
  EXPECT_EQ(processes[0].problem(), "");
  ASSERT_EQ(processes[0].threads_size(), 1);
  const v1::ThreadStack& thread = processes[0].threads(0);
  EXPECT_EQ(thread.user_size(), 0);
  EXPECT_EQ(thread.python_problem(), "");
  ASSERT_EQ(thread.python_size(), 1);
  EXPECT_EQ(thread.python(0).function(), "<module>");
  EXPECT_EQ(thread.python(0).file(), "<string>");
  EXPECT_EQ(thread.python(0).line(), 2);
}

TEST_F(StackReport, HasBothIfAsked) {
  const auto processes = report({"--native", target_});
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].threads(0).python_size(), 1);
  EXPECT_GT(processes[0].threads(0).user_size(), 0) << processes[0].problem();
}

TEST_F(StackReport, ReadsMemoriesThatItIsGiven) {
  auto memory = ProcessMemory::open_fd(sleeper_.pid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const auto processes = report({fmt::format("--memory={}:{}", sleeper_.pid(), memory->get()), target_});
  ASSERT_EQ(processes.size(), 1u);
  EXPECT_EQ(processes[0].threads(0).python_size(), 1);
  // The memory of another process, as a pid that was reused would have it.
  auto own = ProcessMemory::open_fd(::getpid());
  ASSERT_TRUE(own.ok()) << own.status();
  const auto wrong = report({fmt::format("--memory={}:{}", sleeper_.pid(), own->get()), target_});
  ASSERT_EQ(wrong.size(), 1u);
  EXPECT_EQ(wrong[0].threads(0).python_size(), 0);
  EXPECT_THAT(wrong[0].threads(0).python_problem(), HasSubstr("_PyRuntime"));
}

// Making an interpreter leaves the thread with a state in it, in which it runs nothing.
TEST_F(StackReport, IdleInterpretersHideNoStack) {
  const Sleeper sleeper(
      "import time, _xxsubinterpreters as s\ni = s.create()\nprint('up', flush=True); time.sleep(1000)");
  if (!sleeper.is_ready()) GTEST_SKIP() << "no interpreters within " << kPython;
  const auto processes = report({fmt::format("3:{}", sleeper.pid())});
  ASSERT_EQ(processes.size(), 1u);
  ASSERT_EQ(processes[0].threads(0).python_size(), 1);
  EXPECT_EQ(processes[0].threads(0).python(0).line(), 3);
  EXPECT_EQ(processes[0].threads(0).python_problem(), "");
}

TEST_F(StackReport, SaysThatAThreadRunsInTwoInterpreters) {
  const Sleeper sleeper(
      "import _xxsubinterpreters as s\ni = s.create()\n"
      "s.run_string(i, 'import time\\n\\n\\n\\nprint(\"up\", flush=True); time.sleep(1000)')");
  if (!sleeper.is_ready()) GTEST_SKIP() << "no interpreters within " << kPython;
  const auto processes = report({fmt::format("3:{}", sleeper.pid())});
  ASSERT_EQ(processes.size(), 1u);
  ASSERT_EQ(processes[0].threads(0).python_size(), 1);
  EXPECT_EQ(processes[0].threads(0).python(0).line(), 5);
  EXPECT_THAT(processes[0].threads(0).python_problem(), HasSubstr("also runs in 1 other Python interpreter "));
}

TEST_F(StackReport, HasNoProcessThatHasEnded) {
  EXPECT_TRUE(report({"0:1073741823"}).empty());
}

TEST(StackReportArguments, AreRefusedIfMalformed) {
  EXPECT_THAT(report_stacks({"x"}).message(), HasSubstr("is not RANK:PID"));
  EXPECT_FALSE(report_stacks({"1:0"}).ok());
  EXPECT_FALSE(report_stacks({"--memory=x"}).ok());
}

}  // namespace
}  // namespace muster::agent::stack_report_test
