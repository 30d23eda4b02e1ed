#include "launcherd/daemon/job_meter.h"

#include <gtest/gtest.h>

namespace muster::launcherd::job_meter_test {
namespace {

using model::JobState;
using std::chrono::seconds;

class JobMeterTest : public ::testing::Test {
 protected:
  static std::uint64_t total(const DurationHistogram& times) {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : times.counts) sum += count;
    return sum;
  }
  void step(JobState to, int at) { meter_.step(job_, to, begin_ + seconds(at), counters_); }

  const base::JobId job_ = base::JobId::parse("k7abcdef").value();
  const base::WallTime begin_{std::chrono::hours(400'000)};
  JobMeter meter_;
  JobCounters counters_;
};

TEST_F(JobMeterTest, MeasuresTheThreeParts) {
  meter_.add(job_, begin_, std::nullopt, JobState::kQueued);
  step(JobState::kStarting, 5);
  step(JobState::kRunning, 7);
  step(JobState::kStopping, 100);
  step(JobState::kSucceeded, 107);
  EXPECT_DOUBLE_EQ(counters_.queue_wait.sum, 5);
  EXPECT_DOUBLE_EQ(counters_.start_time.sum, 2);
  EXPECT_DOUBLE_EQ(counters_.run_time.sum, 100);
  EXPECT_EQ(counters_.jobs_succeeded, 1U);
  step(JobState::kSucceeded, 200);  // forgotten: only its end counts
  EXPECT_EQ(total(counters_.run_time), 1U);
}

TEST_F(JobMeterTest, LaterGenerationsDoNotCountAgain) {
  meter_.add(job_, begin_, std::nullopt, JobState::kQueued);
  step(JobState::kStarting, 1);
  step(JobState::kRunning, 2);
  step(JobState::kStarting, 10);
  step(JobState::kRunning, 20);
  step(JobState::kFailed, 30);
  EXPECT_EQ(total(counters_.queue_wait), 1U);
  EXPECT_EQ(total(counters_.start_time), 1U);
  EXPECT_DOUBLE_EQ(counters_.run_time.sum, 28);
  EXPECT_EQ(counters_.jobs_failed, 1U);
}

TEST_F(JobMeterTest, AJobThatNeverRanHasNoRunTime) {
  meter_.add(job_, begin_, std::nullopt, JobState::kQueued);
  step(JobState::kKilled, 9);
  EXPECT_EQ(total(counters_.queue_wait) + total(counters_.start_time) + total(counters_.run_time), 0U);
  EXPECT_EQ(counters_.jobs_killed, 1U);
}

TEST_F(JobMeterTest, ElementsAreMeasuredAndTheirArrayIsNot) {
  const base::JobId array = base::JobId::parse("m2abcdef").value();
  meter_.add(array, begin_, std::nullopt, JobState::kQueued);
  meter_.add_element(job_, array);
  meter_.step(array, JobState::kStarting, begin_ + seconds(4), counters_);
  meter_.step(array, JobState::kRunning, begin_ + seconds(4), counters_);
  step(JobState::kStarting, 5);
  step(JobState::kRunning, 6);
  step(JobState::kSucceeded, 16);
  meter_.step(array, JobState::kSucceeded, begin_ + seconds(20), counters_);
  EXPECT_EQ(total(counters_.queue_wait), 1U);
  EXPECT_DOUBLE_EQ(counters_.queue_wait.sum, 5);
  EXPECT_EQ(total(counters_.start_time), 1U);
  EXPECT_DOUBLE_EQ(counters_.run_time.sum, 10);
}

TEST_F(JobMeterTest, AResumedJobIsMeasuredFromItsStart) {
  meter_.add(job_, begin_, begin_ + seconds(50), JobState::kRunning);
  step(JobState::kLost, 60);
  EXPECT_EQ(total(counters_.queue_wait) + total(counters_.start_time), 0U);
  EXPECT_DOUBLE_EQ(counters_.run_time.sum, 10);
  EXPECT_EQ(counters_.jobs_lost, 1U);
}

}  // namespace
}  // namespace muster::launcherd::job_meter_test
