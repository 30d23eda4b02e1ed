// Tests the command lines that hold, release and rerun refuse. tests/e2e/test_74_hold_rerun.py tests the verbs with a
// launcherd.
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
      {run_hold, "hold"}, {run_release, "release"}, {run_rerun, "rerun"}};
  for (const auto& [run, name] : verbs) {
    testing::internal::CaptureStdout();
    EXPECT_EQ(run(name, {"--help"}), 0);
    EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("muster " + name));
  }
}

}  // namespace
}  // namespace muster::cli::queue_verbs_test
