// Tests the command lines that hold, release, update and rerun refuse. tests/e2e/test_74_hold_rerun.py tests the verbs
// with a launcherd.
#include "cli/verbs/queue_verbs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/options/exit_codes.h"

namespace muster::cli::queue_verbs_test {
namespace {

using ::testing::HasSubstr;
using Verb = int (*)(const std::string&, const std::vector<std::string>&);

// Returns what the verb prints on stderr. It must be a mistake in the command line.
std::string mistake(Verb run, const std::string& verb, const std::vector<std::string>& arguments) {
  testing::internal::CaptureStderr();
  const int exit_code = run(verb, arguments);
  std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(exit_code, kUsageError) << text;
  return text;
}

TEST(QueueVerbs, NeedAJob) {
  EXPECT_THAT(mistake(run_hold, "hold", {}), HasSubstr("muster hold: which job?"));
  EXPECT_THAT(mistake(run_release, "release", {}), HasSubstr("muster release: which job?"));
  EXPECT_THAT(mistake(run_rerun, "rerun", {}), HasSubstr("muster rerun: which job?"));
  EXPECT_THAT(mistake(run_update, "update", {"--priority", "1"}), HasSubstr("muster update: which job?"));
}

TEST(QueueVerbs, UpdateSaysWhatChanges) {
  const auto refused = [](std::vector<std::string> words) {
    words.push_back("k7");
    return mistake(run_update, "update", words);
  };
  EXPECT_THAT(refused({}), HasSubstr("nothing is to change: give --priority, --deadline or --after"));
  EXPECT_THAT(refused({"--priority", "high"}), HasSubstr("--priority must be a whole number, not 'high'"));
  EXPECT_THAT(refused({"--deadline", "soon"}), HasSubstr("--deadline: 'soon' is no time"));
  EXPECT_THAT(refused({"--after", "m3:never"}), HasSubstr("--after: unknown condition 'never'"));
  EXPECT_THAT(refused({"--after", "m3", "--no-after"}), HasSubstr("--after or --no-after, not both"));
  EXPECT_THAT(refused({"--deadline", "2h", "--no-deadline"}), HasSubstr("--deadline or --no-deadline, not both"));
}

TEST(QueueVerbs, RerunTakesOneJob) {
  EXPECT_THAT(mistake(run_rerun, "rerun", {"k7", "k8"}), HasSubstr("name one job"));
}

TEST(QueueVerbs, UnknownOptionsAreRefused) {
  EXPECT_THAT(mistake(run_hold, "hold", {"--request-id", "x", "k7"}), HasSubstr("--request-id"));
  EXPECT_THAT(mistake(run_rerun, "rerun", {"--now", "k7"}), HasSubstr("--now"));
}

TEST(QueueVerbs, HelpNeedsNoLauncherd) {
  const std::vector<std::pair<Verb, std::string>> verbs = {
      {run_hold, "hold"}, {run_release, "release"}, {run_update, "update"}, {run_rerun, "rerun"}};
  for (const auto& [run, name] : verbs) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(name, {"--help"}), 0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("muster " + name));
  }
}

}  // namespace
}  // namespace muster::cli::queue_verbs_test
