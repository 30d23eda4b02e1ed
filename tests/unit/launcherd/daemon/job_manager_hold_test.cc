// Tests JobManager with jobs that are held, released or submitted once more.
// tests/e2e/test_74_hold_rerun.py tests the same with agents and a launcherd that is killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/daemon/job_manager_rig.h"

namespace muster::launcherd::job_manager_hold_test {
namespace {

using base::Code;
using ::testing::HasSubstr;
using testing_support::request_of;

class JobManagerHoldTest : public testing_support::JobManagerRig {
 protected:
  base::Status hold(const std::string& id) {
    return wait([&](auto done) { manager_->hold(testing_store::job_id(id), "ann", done); });
  }
  base::Status release(const std::string& id) {
    return wait([&](auto done) { manager_->release(testing_store::job_id(id), done); });
  }
  base::Status wait(const std::function<void(std::function<void(base::Status)>)>& begin) {
    std::optional<base::Status> result;
    begin([&](const base::Status& status) {
      result = status;
      count();
    });
    if (!result) run_until(done_ + 1);
    return *result;
  }
  base::Result<v1::SubmitResponse> rerun(const std::string& id, const std::string& request_id = "") {
    std::optional<base::Result<v1::SubmitResponse>> answer;
    manager_->rerun(testing_store::job_id(id), request_id, "ann", [&](base::Result<v1::SubmitResponse> got) {
      answer = std::move(got);
      count();
    });
    if (!answer) run_until(done_ + 1);
    return *answer;
  }
  void kill_and_wait(const std::string& id) {
    manager_->kill(testing_store::job_id(id), false, [](const base::Status& status) { EXPECT_TRUE(status.ok()); });
    run_until(done_ + 1);
  }
  v1::Job described(const std::string& id) {
    v1::Job job;
    job.set_id(id);
    manager_->describe(job);
    return job;
  }
};

TEST_F(JobManagerHoldTest, AHeldJobDoesNotStartUntilItsRelease) {
  v1::SubmitRequest request = request_of(4);
  request.set_held(true);
  const auto answer = submit(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const std::string id = answer->job_id();
  EXPECT_EQ(stored(id).user, "bob");
  EXPECT_EQ(stored(id).held_by, "bob");
  EXPECT_EQ(stored(id).reason, "held by bob");
  const auto other = submit(request_of(4));  // it goes before the held job, and fails, because no agent starts
  run_until(done_ + 1);
  EXPECT_FALSE(manager_->is_open(testing_store::job_id(other->job_id())));
  EXPECT_TRUE(manager_->is_open(testing_store::job_id(id)));
  EXPECT_TRUE(described(id).held());
  EXPECT_EQ(described(id).reason(), "held by bob");
  end();
  begin();
  EXPECT_EQ(described(id).reason(), "held by bob") << "after a restart";
  manager_->release(testing_store::job_id(id), [](const base::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  run_until(done_ + 1);  // it starts and fails
  end();                 // also writes pending changes
  EXPECT_EQ(stored(id).state, model::JobState::kFailed);
  EXPECT_FALSE(stored(id).held_by.has_value());
}

TEST_F(JobManagerHoldTest, OnlyAWaitingJobCanBeHeld) {
  drain_all();
  const std::string id = submit(request_of(1))->job_id();
  EXPECT_TRUE(hold(id).ok());
  EXPECT_TRUE(hold(id).ok()) << "it is held already";
  EXPECT_EQ(stored(id).held_by, "ann");
  EXPECT_EQ(described(id).reason(), "held by ann");
  EXPECT_TRUE(release(id).ok());
  EXPECT_TRUE(release(id).ok()) << "it is not held";
  EXPECT_FALSE(stored(id).held_by.has_value());
  EXPECT_FALSE(described(id).held());
  EXPECT_THAT(reason(id), HasSubstr("drained"));
  EXPECT_EQ(hold("zzzzzzzz").code(), Code::kNotFound);
  EXPECT_EQ(release("zzzzzzzz").code(), Code::kNotFound);
  kill_and_wait(id);
  EXPECT_EQ(hold(id).code(), Code::kNotFound);
}

// The calls are on their way to the disk at the same time.
TEST_F(JobManagerHoldTest, TheLastOfHoldAndReleaseWins) {
  drain_all();
  const std::string id = submit(request_of(1))->job_id();
  ASSERT_TRUE(hold(id).ok());
  const auto ignore = [](const base::Status& status) { EXPECT_TRUE(status.ok()) << status; };
  manager_->release(testing_store::job_id(id), ignore);
  EXPECT_TRUE(hold(id).ok());
  EXPECT_TRUE(described(id).held());
  EXPECT_TRUE(stored(id).held_by.has_value());
  manager_->release(testing_store::job_id(id), ignore);
  manager_->hold(testing_store::job_id(id), "ann", ignore);
  EXPECT_TRUE(release(id).ok());
  EXPECT_FALSE(described(id).held());
  EXPECT_FALSE(stored(id).held_by.has_value());
}

TEST_F(JobManagerHoldTest, ADeadlineEndsAHeldJob) {
  v1::SubmitRequest request = request_of(1);
  request.set_held(true);
  request.mutable_spec()->mutable_deadline()->set_seconds(1);
  const auto answer = submit(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  if (manager_->is_open(testing_store::job_id(answer->job_id()))) run_until(done_ + 1);
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kKilled);
}

TEST_F(JobManagerHoldTest, ARerunHasTheEnvironmentUntilARestart) {
  drain_all();
  const std::string id = submit(request_of(1))->job_id();
  const auto environment_of = [&](const std::string& job) {
    return *StoreReader::open(path())->environment(testing_store::job_id(job));
  };
  const auto of_open = rerun(id);
  ASSERT_TRUE(of_open.ok()) << of_open.status();
  EXPECT_EQ(environment_of(of_open->job_id()), environment_of(id));
  kill_and_wait(id);
  EXPECT_EQ(environment_of(id), "");
  const auto of_ended = rerun(id, "once");
  ASSERT_TRUE(of_ended.ok()) << of_ended.status();
  EXPECT_EQ(environment_of(of_ended->job_id()), environment_of(of_open->job_id()));
  EXPECT_EQ(stored(of_ended->job_id()).user, "ann");
  EXPECT_EQ(rerun(id, "once")->job_id(), of_ended->job_id());
  EXPECT_EQ(rerun("zzzzzzzz").status().code(), Code::kNotFound);
  end();
  begin();
  EXPECT_EQ(rerun(id, "once")->job_id(), of_ended->job_id()) << "an answer that was lost";
  const auto lost = rerun(id);
  EXPECT_EQ(lost.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(lost.status().message(), "launcherd no longer has the environment of job " + id + "; submit it again");
  EXPECT_TRUE(rerun(of_ended->job_id()).ok()) << "it waits, so the disk has its environment";
}

// The job was launched, so its environment comes from there.
TEST_F(JobManagerHoldTest, AJobThatFailedAtItsStartCanBeRerun) {
  const auto answer = submit(request_of(4));
  ASSERT_TRUE(answer.ok()) << answer.status();
  run_until(done_ + 1);
  drain_all();  // by then the end is stored
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kFailed);
  const auto again = rerun(answer->job_id());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_NE(StoreReader::open(path())->environment(testing_store::job_id(again->job_id()))->find("s3cret"),
            std::string::npos);
}

}  // namespace
}  // namespace muster::launcherd::job_manager_hold_test
