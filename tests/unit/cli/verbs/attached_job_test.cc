#include "cli/verbs/attached_job.h"

#include <gtest/gtest.h>

#include <csignal>

#include "cli/view/report.h"

namespace muster::cli::attached_job_test {
namespace {

EndedJob ended_with(int exit_code) {
  EndedJob ended;
  ended.exit_code = exit_code;
  ended.report.set_exit_code(exit_code);
  ended.report.set_root_cause_rank(-1);
  ended.job.set_size(2);
  ended.hosts = 2;
  ended.job.mutable_started()->set_seconds(1'000);
  ended.job.mutable_ended()->set_seconds(1'002);
  return ended;
}

TEST(AttachedJob, ARankThatFailedIsReportedAsByHvdrun) {
  EndedJob ended = ended_with(3);
  ended.report.set_root_cause_rank(1);
  for (const int rank : {0, 1}) {
    v1::RankEnd& end = *ended.report.add_ends();
    end.set_rank(rank);
    end.set_host(rank == 0 ? "n1" : "n2");
    end.set_pid(42);
    end.set_kind(rank == 0 ? v1::RANK_END_KIND_STOPPED : v1::RANK_END_KIND_EXITED);
    end.set_exit_code(rank == 0 ? 0 : 3);
    end.set_signal(rank == 0 ? 15 : 0);
  }
  ended.report.add_stderr_tail("no such file");
  const launcherd::JobOutcome outcome = outcome_of(ended, 0);
  ASSERT_EQ(outcome.root, 1);
  EXPECT_EQ(format_root_cause(outcome.ends[1]), "rank 1 on n2 (pid 42): exit code 3");
  const std::vector<std::string> lines = format_outcome(outcome, false);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[1], "  | no such file");
  EXPECT_EQ(lines[3], "2 ranks on 2 hosts, 2.0 s: failed; exit code 3 is that of rank 1 on n2");
}

TEST(AttachedJob, WhoStoppedItIsKnownHereAlone) {
  EXPECT_EQ(outcome_of(ended_with(143), SIGINT).exit_code, 130);
  EXPECT_EQ(format_outcome(outcome_of(ended_with(143), SIGINT), true).back(),
            "2 ranks on 2 hosts, 2.0 s: stopped by Ctrl-C (SIGINT)");
  EXPECT_EQ(outcome_of(ended_with(143), SIGHUP).exit_code, 129);
  EXPECT_EQ(outcome_of(ended_with(143), 0).cause, launcherd::StopCause::kTerminate);
  EXPECT_EQ(outcome_of(ended_with(124), 0).cause, launcherd::StopCause::kTimeout);
  EXPECT_EQ(outcome_of(ended_with(0), SIGINT).exit_code, 0);  // it had ended before the signal came
}

TEST(AttachedJob, AJobThatWasNotStartedSaysWhy) {
  EndedJob ended = ended_with(125);
  ended.job.set_state(v1::JOB_STATE_FAILED);
  ended.job.set_reason("n2: Permission denied (publickey)");
  const std::vector<std::string> lines = format_outcome(outcome_of(ended, 0), false);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], "n2: Permission denied (publickey)");
  EXPECT_EQ(lines[1], "2 ranks on 2 hosts, 2.0 s: not started");
  ended = ended_with(2);
  ended.job.set_state(v1::JOB_STATE_FAILED);
  ended.job.set_reason("n1: 3 ranks need 1 GPU each, but ranks may use 2 GPUs");
  EXPECT_EQ(outcome_of(ended, 0).exit_code, 2);
  EXPECT_EQ(format_outcome(outcome_of(ended, 0), false),
            (std::vector<std::string>{"n1: 3 ranks need 1 GPU each, but ranks may use 2 GPUs",
                                      "2 ranks on 2 hosts, 2.0 s: not started"}));
}

TEST(AttachedJob, HostsThatAreNotCleanAreNamed) {
  EndedJob ended = ended_with(0);
  ended.report.add_unclean_hosts("n2");
  EXPECT_EQ(format_outcome(outcome_of(ended, 0), false).front(),
            "n2: something of the job may be left there: muster cleanup -H n2");
}

}  // namespace
}  // namespace muster::cli::attached_job_test
