// Tests JobManager with jobs that wait for other jobs, and with updates. No agent can be started here, so each job that
// starts fails. tests/daemon/test_after.py tests the same with agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/daemon/job_manager_rig.h"

namespace muster::launcherd::job_manager_after_test {
namespace {

using base::Code;
using ::testing::HasSubstr;
using testing_store::job_id;
using testing_support::request_of;

class JobManagerAfterTest : public testing_support::JobManagerRig {
 protected:
  std::string submit_after(const std::string& awaited, v1::DependencyCondition condition, bool held = false) {
    v1::SubmitRequest request = request_of(1);
    request.set_held(held);
    if (!awaited.empty()) {
      request.add_after()->set_job(awaited);
      request.mutable_after(0)->set_condition(condition);
    }
    const auto answer = submit(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->job_id();
  }
  base::Status update(const std::string& id, const v1::UpdateJobRequest& request) {
    std::optional<base::Status> result;
    manager_->update(job_id(id), request, "ann", [&](const base::Status& status) {
      result = status;
      count();
    });
    if (!result) run_until(done_ + 1);
    return *result;
  }
  static v1::UpdateJobRequest waits_for(const std::string& awaited) {
    v1::UpdateJobRequest request;
    request.add_after()->set_job(awaited);
    return request;
  }
  void run_until_ended(const std::string& id) {
    while (manager_->is_open(job_id(id))) run_until(done_ + 1);
  }
};

TEST_F(JobManagerAfterTest, AFailureReachesAllThatWait) {
  const std::string first = submit_after("", {}, true);
  const std::string ok = submit_after(first, v1::DEPENDENCY_CONDITION_OK);
  const std::string then = submit_after(ok, v1::DEPENDENCY_CONDITION_OK);
  const std::string any = submit_after(first, v1::DEPENDENCY_CONDITION_ANY);
  EXPECT_EQ(reason(ok), "waits for the success of job " + first);
  manager_->release(job_id(first), [](const base::Status&) {});
  for (const std::string& id : {first, ok, then, any}) run_until_ended(id);
  end();
  EXPECT_EQ(stored(ok).reason,
            fmt::format("it waited for the success of job {}, which ended as FAILED with exit code 125", first));
  EXPECT_EQ(stored(ok).exit_code, 125);
  EXPECT_FALSE(stored(ok).started);
  EXPECT_THAT(stored(then).reason, HasSubstr(ok));
  EXPECT_TRUE(stored(any).started) << "it started after the end";
}

// The awaited job ended, and launcherd was killed before the job that waits got to know it.
TEST_F(JobManagerAfterTest, ARestartFindsWhatHasHappened) {
  drain_all();
  const std::string first = submit_after("", {}, true);
  const std::string waits = submit_after(first, v1::DEPENDENCY_CONDITION_ANY);
  const std::string never = submit_after(first, v1::DEPENDENCY_CONDITION_OK);
  end();
  {
    launcherd::BatchWriter writer = testing_store::open_writer(path());
    ASSERT_TRUE(
        testing_store::commit(writer, {testing_store::step(first, model::JobState::kKilled, "killed", 143)}).ok());
  }
  begin();
  run_until_ended(never);
  EXPECT_THAT(reason(waits), HasSubstr("drained")) << "it waits for slots now";
  end();
  EXPECT_THAT(stored(never).reason, HasSubstr("ended as KILLED with exit code 143"));
  EXPECT_TRUE(StoreReader::open(path())->after(job_id(waits))->empty());
}

TEST_F(JobManagerAfterTest, ARemovedJobHasEndedInAnUnknownWay) {
  drain_all();
  const std::string first = submit_after("", {}, true);
  const std::string waits = submit_after(first, v1::DEPENDENCY_CONDITION_ANY);
  const std::string never = submit_after(first, v1::DEPENDENCY_CONDITION_OK);
  end();
  {
    launcherd::BatchWriter writer = testing_store::open_writer(path());
    ASSERT_TRUE(testing_store::commit(writer, {testing_store::step(first, model::JobState::kKilled, "killed", 143),
                                               launcherd::ForgetJob{job_id(first)}})
                    .ok());
  }
  begin();
  run_until_ended(never);
  EXPECT_THAT(reason(waits), HasSubstr("drained"));
  end();
  EXPECT_THAT(stored(never).reason, HasSubstr("has been removed, so that its end is unknown"));
}

TEST_F(JobManagerAfterTest, ACircleIsRefusedAlsoWhileAChangeIsOnItsWay) {
  drain_all();
  const std::string first = submit_after("", {});
  const std::string second = submit_after(first, v1::DEPENDENCY_CONDITION_OK);
  const std::string third = submit_after("", {});
  EXPECT_EQ(update(first, waits_for(second)).message(),
            fmt::format("after: these jobs would wait for each other: {} -> {} -> {}", first, second, first));
  // Both updates are read before one of them is stored.
  std::vector<base::Status> results;
  const auto keep = [&](const base::Status& status) {
    results.push_back(status);
    count();
  };
  manager_->update(job_id(first), waits_for(third), "ann", keep);
  manager_->update(job_id(third), waits_for(second), "ann", keep);
  run_until(done_ + 2);
  ASSERT_EQ(results.size(), 2u);
  EXPECT_EQ(static_cast<int>(results[0].ok()) + static_cast<int>(results[1].ok()), 1);
}

TEST_F(JobManagerAfterTest, AnUpdateIsOnTheDisk) {
  drain_all();
  const std::string first = submit_after("", {});
  const std::string second = submit_after(first, v1::DEPENDENCY_CONDITION_OK);
  v1::UpdateJobRequest request;
  request.set_priority(7);
  request.mutable_deadline()->set_seconds(4'000'000'000);
  request.set_no_after(true);
  ASSERT_TRUE(update(second, request).ok());
  EXPECT_THAT(reason(second), HasSubstr("drained"));
  EXPECT_EQ(stored(second).priority, 7);
  end();
  begin();
  EXPECT_EQ(stored(second).priority, 7);
  EXPECT_THAT(reason(second), HasSubstr("drained"));
  v1::UpdateJobRequest past;
  past.mutable_deadline()->set_seconds(1);
  ASSERT_TRUE(update(second, past).ok());
  run_until_ended(second);
  EXPECT_EQ(stored(second).exit_code, 124);
  EXPECT_EQ(update(second, request).code(), Code::kNotFound);
}

TEST_F(JobManagerAfterTest, AnUpdateThatSaysNothingIsRefused) {
  drain_all();
  const std::string id = submit_after("", {});
  EXPECT_EQ(update(id, {}).code(), Code::kInvalidArgument);
  v1::UpdateJobRequest both = waits_for(id);
  both.set_no_after(true);
  EXPECT_THAT(update(id, both).message(), HasSubstr("no_after"));
  EXPECT_EQ(update(id, waits_for("zzzzzzzz")).code(), Code::kNotFound);
}

}  // namespace
}  // namespace muster::launcherd::job_manager_after_test
