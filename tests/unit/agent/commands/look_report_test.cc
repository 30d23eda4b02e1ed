// Looks at real processes.
#include "agent/commands/look_report.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "agent/proc/proc_table.h"
#include "proto/muster/v1/job.pb.h"
#include "tests/unit/agent/commands/written_frames.h"
#include "tests/unit/support/standing_child.h"

namespace muster::agent::look_report_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPython = "/usr/bin/python3";

// Runs report_looks() in a process of its own, and returns what it writes.
std::vector<v1::RankEvidence> report(const std::vector<std::string>& arguments) {
  return testing_support::written_frames<v1::RankEvidence>([&] { return report_looks(arguments); });
}

// Looks when the process sleeps. It prints "up" just before.
v1::RankEvidence report_asleep(pid_t pid) {
  while (wait_channel(pid).find("nanosleep") == std::string::npos && read_process(pid)->state != 'Z') {
  }
  const auto ranks = report({fmt::format("3:{}", pid)});
  return ranks.size() == 1 ? ranks[0] : v1::RankEvidence();
}

class Python : public testing_support::StandingPython {
 public:
  explicit Python(const char* script) : StandingPython(kPython, "-c", script) {}
};

TEST(LookReport, ShowsWhereASleeperIs) {
  const Python child(
      "import time\nwhile time.process_time() < 0.05: pass\ndef nap():\n  time.sleep(1000)\nprint('up', "
      "flush=True)\nnap()");
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence look = report_asleep(child.pid());
  EXPECT_EQ(look.rank(), 3);
  EXPECT_EQ(look.pid(), child.pid());
  EXPECT_EQ(look.problem(), "");
  EXPECT_FALSE(look.moving());
  EXPECT_FALSE(look.fully_stopped());
  EXPECT_THAT(look.wait_channel(), HasSubstr("nanosleep"));
  EXPECT_THAT(look.native(), HasSubstr("nanosleep"));
  ASSERT_EQ(look.python_size(), 2);
  EXPECT_EQ(look.python(0).function(), "nap");
  EXPECT_EQ(look.python(0).line(), 4);
  EXPECT_GT(look.cpu_ms(), 0);
}

TEST(LookReport, ShowsAStoppedProcess) {
  const Python child("import time\nprint('up', flush=True)\ntime.sleep(1000)");
  ASSERT_TRUE(child.is_ready());
  ASSERT_EQ(::kill(child.pid(), SIGSTOP), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child.pid(), &status, WUNTRACED), child.pid());
  const auto ranks = report({fmt::format("3:{}", child.pid())});
  ASSERT_EQ(ranks.size(), 1u);
  const v1::RankEvidence& look = ranks[0];
  EXPECT_EQ(look.state(), "T");
  EXPECT_TRUE(look.fully_stopped());
  ASSERT_EQ(look.python_size(), 1);
  EXPECT_EQ(look.problem(), "");
}

TEST(LookReport, ShowsTheChildOfAShell) {
  // The Python process asks for SIGKILL at the end of its parent.
  const testing_support::StandingChild shell(3, [](int output) {
    ::dup2(output, STDOUT_FILENO);
    ::execl("/bin/sh", "sh", "-c",
            "/usr/bin/python3 -c \"import ctypes, time\nctypes.CDLL(None).prctl(1, 9)\nprint('up', flush=True); "
            "time.sleep(1000)\"; exit $?",
            nullptr);
  });
  ASSERT_TRUE(shell.is_ready());
  const auto ranks = report({fmt::format("3:{}", shell.pid())});
  ASSERT_EQ(ranks.size(), 1u);
  EXPECT_NE(ranks[0].pid(), shell.pid());
  ASSERT_EQ(ranks[0].python_size(), 1);
  EXPECT_EQ(ranks[0].python(0).line(), 3);
  const auto python = read_process(static_cast<pid_t>(ranks[0].pid()));
  ASSERT_TRUE(python.has_value());
  EXPECT_EQ(python->parent, shell.pid());
}

TEST(LookReport, HasNoRankThatHasEnded) {
  EXPECT_TRUE(report({"0:1073741823"}).empty());
}

TEST(LookReport, AtMost32FramesAreShown) {
  const Python child(
      "import time\ndef deep(n):\n  if n: deep(n - 1)\n  print('up', flush=True)\n  time.sleep(1000)\ndeep(50)");
  ASSERT_TRUE(child.is_ready());
  const v1::RankEvidence look = report_asleep(child.pid());
  ASSERT_EQ(look.python_size(), 32);
  EXPECT_EQ(look.python(0).line(), 5);
}

TEST(LookReport, RefusesOtherArguments) {
  EXPECT_THAT(report_looks({"x"}).message(), HasSubstr("is not RANK:PID"));
}

}  // namespace
}  // namespace muster::agent::look_report_test
