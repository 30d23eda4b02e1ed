#include "launcherd/run/restarting_job.h"

#include <gtest/gtest.h>

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
  outcome.ends.push_back(end);
  return outcome;
}

TEST(RestartingJob, ARankThatFailedByItselfIsWorthARestart) {
  EXPECT_TRUE(is_worth_a_restart(failed_with(model::EndKind::kExited)));
  EXPECT_TRUE(is_worth_a_restart(failed_with(model::EndKind::kSignalled)));
  JobOutcome waited = failed_with(model::EndKind::kExited);  // --on-exit wait: nobody stopped it
  waited.cause = StopCause::kNone;
  EXPECT_TRUE(is_worth_a_restart(waited));
}

TEST(RestartingJob, SuccessIsNot) {
  EXPECT_FALSE(is_worth_a_restart(JobOutcome{}));
}

TEST(RestartingJob, WhatFailsAgainIsNot) {
  EXPECT_FALSE(is_worth_a_restart(failed_with(model::EndKind::kStartFailed)));
  EXPECT_FALSE(is_worth_a_restart(failed_with(model::EndKind::kHostLost)));
}

TEST(RestartingJob, AJobStoppedFromOutsideIsNot) {
  for (const StopCause cause :
       {StopCause::kHangup, StopCause::kInterrupt, StopCause::kTerminate, StopCause::kTimeout, StopCause::kStdoutClosed,
        StopCause::kHostFailed, StopCause::kOutputFailed, StopCause::kRefused}) {
    JobOutcome outcome = failed_with(model::EndKind::kExited);
    outcome.cause = cause;
    EXPECT_FALSE(is_worth_a_restart(outcome)) << static_cast<int>(cause);
  }
}

TEST(RestartingJob, NoRestartIfProcessesMayBeLeft) {
  JobOutcome unclean = failed_with(model::EndKind::kExited);
  unclean.unclean.push_back({"n1", "n1: not reachable"});
  EXPECT_FALSE(is_worth_a_restart(unclean));
  JobOutcome lost = failed_with(model::EndKind::kExited);
  lost.host_failures.push_back({"n1", "n1: the agent there ended"});
  EXPECT_FALSE(is_worth_a_restart(lost));
}

}  // namespace
}  // namespace muster::launcherd::restarting_job_test
