// A job as it is after its end.
#include "cli/verbs/follow_job.h"

#include <gtest/gtest.h>

namespace muster::cli::follow_job_test {
namespace {

EndedJob with_code(int exit_code) {
  EndedJob ended;
  ended.exit_code = exit_code;
  return ended;
}

TEST(JobAtEnd, IsWhatLauncherdTells) {
  EndedJob ended = with_code(3);
  ended.job.set_id("k7");
  ended.job.set_state(v1::JOB_STATE_LOST);
  EXPECT_EQ(job_at_end(v1::Job(), ended, base::WallTime()).state(), v1::JOB_STATE_LOST);
}

TEST(JobAtEnd, FollowsFromTheExitCodeOfAForegroundJob) {
  v1::Job before;
  before.set_id("k7");
  before.set_state(v1::JOB_STATE_RUNNING);
  const base::WallTime now = std::chrono::system_clock::from_time_t(1'781'975'153);
  const v1::Job job = job_at_end(before, with_code(3), now);
  EXPECT_EQ(job.id(), "k7");
  EXPECT_EQ(job.state(), v1::JOB_STATE_FAILED);
  EXPECT_EQ(job.exit_code(), 3);
  EXPECT_EQ(job.ended().seconds(), 1'781'975'153);
  EXPECT_EQ(job_at_end(before, with_code(0), now).state(), v1::JOB_STATE_SUCCEEDED);
  EXPECT_EQ(job_at_end(before, with_code(143), now).state(), v1::JOB_STATE_KILLED);
}

}  // namespace
}  // namespace muster::cli::follow_job_test
