#include "cli/options/failure_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/cli/options/parsed.h"
#include "tests/unit/cli/options/refused.h"

namespace muster::cli::failure_options_test {
namespace {

TEST(FailureOptions, OptionsThatContradictOrHaveNoEffectAreRefused) {
  expect_refused({
      {{"--spares", "a;b", "p"}, "--spares must be a number from 0 to 100000, or a list of hosts as in -H: "},
      {{"--spares", "n3", "--on-failure", "restart", "p"},
       "--spares: only --on-failure replace and --on-failure shrink use spare hosts"},
      {{"--progress-file", "checkpoint", "p"}, "--progress-file: only a job that starts again counts failures"},
      {{"--failed-host-cooldown", "60", "--on-failure", "restart", "p"},
       "--failed-host-cooldown: only --on-failure replace and --on-failure shrink leave failed hosts out"},
      {{"--failed-host-cooldown", "soon", "p"}, "--failed-host-cooldown: 'soon' is not a time"},
      {{"--min-np", "3", "--max-np", "2", "p"}, "--max-np 2 is less than --min-np 3"},
      {{"-np", "5", "--min-np", "2", "--max-np", "4", "p"}, "--max-np 4 is less than -np 5"},
      {{"--min-np", "1", "--spares", "n3", "p"},
       "--min-np lets ranks live on while others fail: leave out --on-failure"},
      {{"--min-np", "1", "--max-restarts", "2", "p"}, "--min-np lets ranks live on while others fail: leave out"},
      {{"--min-np", "1", "--on-failure", "restart", "p"}, "--min-np lets ranks live on while others fail: leave out"},
      {{"--on-failure", "retry", "p"}, "--on-failure must be one of fail, restart, replace, shrink, not 'retry'"},
      {{"--on-failure", "shrink", "--elastic-policy", "both", "p"},
       "--elastic-policy: only launcherd changes the size of a job by itself; add --launcher auto, or leave it out"},
      {{"--launcher", "auto", "--elastic-policy", "both", "p"}, "--elastic-policy: this job keeps its size; add"},
      {{"--max-restarts", "-1", "p"}, "--max-restarts must be a number from 0"},
  });
}

TEST(FailureOptions, SparesImplyReplacement) {
  const ParsedHvdrun parsed =
      parse({"--spares", "n3,n4:2", "--progress-file", "checkpoint", "--failed-host-cooldown", "90", "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  const model::FailurePolicy& policy = parsed.options.request.job.failure;
  EXPECT_EQ(policy.on_failure, model::OnFailure::kReplace);
  ASSERT_EQ(policy.spares.size(), 2U);
  EXPECT_EQ(policy.spares[1].name, "n4");
  EXPECT_EQ(policy.progress_file, "checkpoint");
  EXPECT_EQ(policy.failed_host_cooldown, std::chrono::seconds(90));
  EXPECT_EQ(parsed.options.request.job.max_restarts, 3);
}

TEST(FailureOptions, MinNpMakesAJobElastic) {
  const ParsedHvdrun parsed = parse({"-np", "4", "--min-np", "2", "--reset-limit", "3", "--elastic-timeout", "60",
                                     "--blacklist-cooldown-range", "2", "30", "p"});
  ASSERT_FALSE(parsed.exit_code) << parsed.text;
  EXPECT_TRUE(parsed.options.output.notes.empty());
  const auto& live = parsed.options.request.job.live;
  ASSERT_TRUE(live.has_value());
  EXPECT_EQ(live->min_ranks, 2);
  EXPECT_EQ(live->reset_limit, 3);
  EXPECT_EQ(live->elastic_timeout, std::chrono::seconds(60));
  EXPECT_EQ(live->cooldown, std::pair(2, 30));
  EXPECT_FALSE(live->max_ranks.has_value());
}

}  // namespace
}  // namespace muster::cli::failure_options_test
