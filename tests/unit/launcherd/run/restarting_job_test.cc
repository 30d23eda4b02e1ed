#include "launcherd/run/restarting_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/exit_code.h"

namespace muster::launcherd::restarting_job_test {
namespace {

JobOutcome failed_with(model::EndKind kind) {
  JobOutcome outcome;
  outcome.cause = StopCause::kPolicy;
  outcome.exit_code = 1;
  outcome.root = 0;
  model::RankEnd end;
  end.kind = kind;
  end.exit_code = 1;
  end.host = "n1";
  outcome.ends.push_back(end);
  return outcome;
}

bool is_restartable(const JobOutcome& outcome) {
  return restartable_end(outcome, false).has_value();
}

TEST(RestartingJob, ARankThatFailedByItselfIsWorthARestart) {
  EXPECT_TRUE(is_restartable(failed_with(model::EndKind::kExited)));
  EXPECT_TRUE(is_restartable(failed_with(model::EndKind::kSignalled)));
  JobOutcome waited = failed_with(model::EndKind::kExited);  // --on-exit wait: nobody stopped it
  waited.cause = StopCause::kNone;
  EXPECT_TRUE(is_restartable(waited));
  EXPECT_EQ(restartable_end(waited, false)->failed_host, "n1");
}

TEST(RestartingJob, SuccessIsNot) {
  EXPECT_FALSE(is_restartable(JobOutcome{}));
}

TEST(RestartingJob, WhatFailsAgainIsNot) {
  EXPECT_FALSE(is_restartable(failed_with(model::EndKind::kStartFailed)));
  EXPECT_FALSE(is_restartable(failed_with(model::EndKind::kHostLost)));
}

TEST(RestartingJob, ARankThatAsksNotToStartAgainIsNot) {
  JobOutcome outcome = failed_with(model::EndKind::kExited);
  outcome.exit_code = outcome.ends[0].exit_code = model::kNeverAgain;
  EXPECT_FALSE(is_restartable(outcome));
  EXPECT_FALSE(restartable_end(outcome, true).has_value());
}

TEST(RestartingJob, AJobStoppedFromOutsideIsNot) {
  for (const StopCause cause : {StopCause::kHangup, StopCause::kInterrupt, StopCause::kTerminate, StopCause::kTimeout,
                                StopCause::kStdoutClosed, StopCause::kOutputFailed, StopCause::kRefused}) {
    JobOutcome outcome = failed_with(model::EndKind::kExited);
    outcome.cause = cause;
    EXPECT_FALSE(is_restartable(outcome)) << static_cast<int>(cause);
    EXPECT_FALSE(restartable_end(outcome, true).has_value()) << static_cast<int>(cause);
  }
}

TEST(RestartingJob, NoRestartOnHostsWhereProcessesMayBeLeft) {
  JobOutcome unclean = failed_with(model::EndKind::kExited);
  unclean.unclean.push_back({"n1", "n1: not reachable"});
  EXPECT_FALSE(is_restartable(unclean));
  EXPECT_THAT(restartable_end(unclean, true)->bad_hosts, testing::ElementsAre("n1"));
  EXPECT_EQ(restartable_end(unclean, true)->failed_host, "");
}

TEST(RestartingJob, ALostHostNeedsAPolicyThatChangesHosts) {
  JobOutcome lost = failed_with(model::EndKind::kHostLost);
  lost.cause = StopCause::kHostFailed;
  lost.root = -1;
  lost.host_failures.push_back({"n1", "n1: the agent there ended"});
  lost.unclean.push_back({"n1", "n1: not reachable"});
  EXPECT_FALSE(is_restartable(lost));
  EXPECT_THAT(restartable_end(lost, true)->bad_hosts, testing::ElementsAre("n1"));
}

TEST(RestartingJob, TheFirstReasonOfABadHostCounts) {
  JobOutcome lost = failed_with(model::EndKind::kHostLost);
  lost.cause = StopCause::kHostFailed;
  lost.host_failures.push_back({"n1", "n1: the agent there ended; see its log"});
  lost.unclean.push_back({"n1", "n1: not reachable"});
  EXPECT_EQ(restartable_end(lost, true)->reasons.at("n1"), "the agent there ended");
}

TEST(RestartingJob, AJobThatSucceededIsNotEvenIfAHostKeepsProcesses) {
  JobOutcome outcome;
  outcome.unclean.push_back({"n2", "n2: cannot be killed"});
  EXPECT_FALSE(restartable_end(outcome, true).has_value());
}

TEST(RestartingJob, ARankThatAsksNotToStartAgainCountsMoreThanAHost) {
  JobOutcome outcome = failed_with(model::EndKind::kExited);
  outcome.exit_code = outcome.ends[0].exit_code = model::kNeverAgain;
  outcome.unclean.push_back({"n2", "n2: cannot be killed"});
  EXPECT_FALSE(restartable_end(outcome, true).has_value());
}

TEST(RestartingJob, AHostWhoseStartWasCutShortIsNotBad) {
  JobOutcome outcome;
  outcome.cause = StopCause::kHostFailed;
  outcome.exit_code = model::kMusterFailed;
  outcome.host_failures.push_back({"n2", "n2: no route"});
  outcome.host_failures.push_back({.host = "n3", .message = "n3: was still connecting", .is_cut_short = true});
  EXPECT_THAT(restartable_end(outcome, true)->bad_hosts, testing::ElementsAre("n2"));
}

TEST(RestartingJob, AReasonForALineThatNamesTheHostIsShort) {
  EXPECT_EQ(
      short_reason({"n2", "n2: not heard of for 15 s (its lease); its agent has ended its ranks: check the host"}),
      "not heard of for 15 s (its lease)");
  EXPECT_EQ(short_reason({"n2", "host n2: no answer at 10.0.0.2 port 22 in time; check that the host is up"}),
            "no answer at 10.0.0.2 port 22 in time");
  EXPECT_EQ(short_reason({"n2", "killed"}), "killed");
}

TEST(RestartingJob, AFailureOfAllHostsIsNot) {
  JobOutcome outcome;
  outcome.cause = StopCause::kHostFailed;
  outcome.exit_code = model::kMusterFailed;
  outcome.host_failures.push_back({"", "the files could not be staged"});
  EXPECT_FALSE(restartable_end(outcome, true).has_value());
}

}  // namespace
}  // namespace muster::launcherd::restarting_job_test
