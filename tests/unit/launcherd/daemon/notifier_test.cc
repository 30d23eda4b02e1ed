#include "launcherd/daemon/notifier.h"

#include <fstream>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/support/temp_dir.h"

namespace muster::launcherd::notifier_test {
namespace {

using ::testing::HasSubstr;

class NotifierTest : public ::testing::Test {
 protected:
  base::Status run(const std::string& command, std::chrono::milliseconds limit = kNotifyLimit) {
    Notifier notifier(loop_, limit);
    std::optional<base::Status> result;
    const base::Timer late = loop_.after(std::chrono::seconds(60), [this] { loop_.stop(); });
    notifier.run(
        {.job = *base::JobId::parse("abcdefgh"), .state = model::JobState::kFailed, .exit_code = 3, .command = command},
        [&](const base::Status& status) {
          result = status;
          loop_.stop();
        });
    loop_.run();
    return result.value_or(base::error(base::Code::kInternal, "no answer"));
  }
  std::string content(const std::string& path) {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }

  base::Loop loop_;
  testing_support::TempDir temp_;
};

TEST_F(NotifierTest, TheCommandKnowsTheJob) {
  const std::string told = temp_ / "told";
  EXPECT_TRUE(run("echo $MUSTER_JOB_ID $MUSTER_JOB_STATE $MUSTER_EXIT_CODE > " + told).ok());
  EXPECT_EQ(content(told), "abcdefgh FAILED 3\n");
}

TEST_F(NotifierTest, AFailureIsOneSentence) {
  EXPECT_EQ(run("echo no mail >&2; exit 4").message(), "the command ended with exit code 4; it printed: no mail");
  EXPECT_THAT(run("kill -9 $$").message(), HasSubstr("signal 9"));
}

TEST_F(NotifierTest, ACommandThatTakesTooLongIsKilled) {
  EXPECT_THAT(run("sleep 1000", std::chrono::milliseconds(50)).message(), HasSubstr("took too long and was killed"));
}

TEST_F(NotifierTest, DestructionKillsCommandsAndCallsNothing) {
  bool is_called = false;
  {
    Notifier notifier(loop_);
    for (int i = 0; i < 2 * kMostNotifying; ++i) {
      notifier.run({.job = base::JobId::random(), .state = model::JobState::kFailed, .command = "sleep 1000"},
                   [&](const base::Status&) { is_called = true; });
    }
  }
  loop_.post([this] { loop_.stop(); });
  loop_.run();
  EXPECT_FALSE(is_called);
}

}  // namespace
}  // namespace muster::launcherd::notifier_test
