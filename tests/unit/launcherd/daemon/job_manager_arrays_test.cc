// Tests JobManager with arrays. No agent can be started here, so each element that starts fails.
// tests/daemon/test_arrays.py tests the same with agents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/daemon/job_manager_rig.h"

namespace muster::launcherd::job_manager_arrays_test {
namespace {

using base::Code;
using model::JobState;
using ::testing::HasSubstr;
using testing_store::job_id;
using testing_support::request_of;

class JobManagerArraysTest : public testing_support::JobManagerRig {
 protected:
  std::string submit_array(int first, int last, int most = 0) {
    v1::SubmitRequest request = request_of(1);
    request.mutable_array()->add_elements()->set_first(first);
    request.mutable_array()->mutable_elements(0)->set_last(last);
    request.mutable_array()->set_most_at_once(most);
    const auto answer = submit(request);
    EXPECT_TRUE(answer.ok()) << answer.status();
    return answer->job_id();
  }
  void run_until_ended(const std::string& id) {
    while (manager_->is_open(job_id(id))) run_until(done_ + 1);
  }
  std::vector<StoredElement> elements(const std::string& id) {
    return *StoreReader::open(path())->elements(job_id(id), 0, kLongestPage);
  }
  base::Status kill_unstarted(const std::string& id, int index) {
    std::optional<base::Status> result;
    manager_->kill_unstarted(job_id(id), index, [&](const base::Status& status) {
      result = status;
      count();
    });
    if (!result) run_until(done_ + 1);
    return *result;
  }
};

TEST_F(JobManagerArraysTest, EachElementStartsOnce) {
  const std::string id = submit_array(3, 12, 2);
  EXPECT_TRUE(manager_->is_array(job_id(id)));
  run_until_ended(id);
  end();
  const auto all = elements(id);
  ASSERT_EQ(all.size(), 10u);
  EXPECT_EQ(all.front().index, 3);
  EXPECT_EQ(stored(id).state, JobState::kFailed);
  EXPECT_EQ(stored(id).exit_code, 125);
  EXPECT_EQ(stored(id).reason, "10 of its 10 elements failed: 3-12");
  EXPECT_TRUE(stored(id).started);
}

TEST_F(JobManagerArraysTest, AnArrayThatWaitsEndsWithOneKill) {
  drain_all();
  const std::string id = submit_array(0, 9999);
  EXPECT_THAT(reason(id), HasSubstr("drained"));
  manager_->kill(job_id(id), false, [](const base::Status& status) { EXPECT_TRUE(status.ok()); });
  run_until_ended(id);
  EXPECT_EQ(stored(id).state, JobState::kKilled);
  EXPECT_TRUE(elements(id).empty());
}

TEST_F(JobManagerArraysTest, ElementsThatWaitCanBeKilledOneByOne) {
  drain_all();
  const std::string id = submit_array(0, 1);
  EXPECT_TRUE(kill_unstarted(id, 1).ok());
  EXPECT_EQ(kill_unstarted(id, 1).code(), Code::kAborted);
  EXPECT_EQ(elements(id).size(), 1u);
  EXPECT_EQ(elements(id)[0].state, JobState::kKilled);
  end();
  begin();
  EXPECT_EQ(kill_unstarted(id, 1).code(), Code::kAborted) << "after a restart";
  EXPECT_TRUE(kill_unstarted(id, 0).ok());
  run_until_ended(id);
  EXPECT_EQ(stored(id).state, JobState::kKilled);
  EXPECT_EQ(stored(id).reason, "2 of its 2 elements were killed");
}

// launcherd was killed after the end of the last element, and before the end of the array.
TEST_F(JobManagerArraysTest, ARestartEndsAnArrayWhoseElementsHaveEnded) {
  drain_all();
  const std::string id = submit_array(0, 0);
  end();
  {
    launcherd::BatchWriter writer = testing_store::open_writer(path());
    NewJob element = testing_store::new_job("bbbbbbbb");
    element.element = ArrayPlace{job_id(id), 0};
    ASSERT_TRUE(testing_store::commit(
                    writer, {testing_store::step(id, JobState::kStarting), testing_store::step(id, JobState::kRunning),
                             element, testing_store::step("bbbbbbbb", JobState::kStarting),
                             testing_store::step("bbbbbbbb", JobState::kSucceeded, "well", 0)})
                    .ok());
  }
  begin();
  run_until_ended(id);
  EXPECT_EQ(stored(id).state, JobState::kSucceeded);
  EXPECT_EQ(stored(id).reason, "all 1 elements succeeded");
}

TEST_F(JobManagerArraysTest, CallsForOneJobNameAnElement) {
  drain_all();
  const std::string id = submit_array(0, 1);
  EXPECT_THAT(manager_->explain_hang(job_id(id), [](const auto&) {}).message(),
              HasSubstr("is an array: name one element"));
  EXPECT_THAT(manager_->signal(job_id(id), 10).message(), HasSubstr("none of its elements is running"));
  EXPECT_EQ(kill_unstarted("zzzzzzzz", 0).code(), Code::kNotFound);
}

}  // namespace
}  // namespace muster::launcherd::job_manager_arrays_test
