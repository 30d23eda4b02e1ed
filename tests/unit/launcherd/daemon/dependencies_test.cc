#include "launcherd/daemon/dependencies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::dependencies_test {
namespace {

using base::Code;
using model::AfterEnd;
using model::JobState;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing_store::job_id;

class DependenciesTest : public ::testing::Test {
 protected:
  DependenciesTest() : writer_(testing_store::open_writer(temp_ / "jobs.sqlite")) {
    NewJob known = testing_store::new_job("dddddddd", "once");
    EXPECT_TRUE(
        testing_store::commit(writer_, {testing_store::new_job("aaaaaaaa"), testing_store::new_job("bbbbbbbb"),
                                        testing_store::step("bbbbbbbb", JobState::kFailed, "because", 3), known})
            .ok());
    reader_.emplace(std::move(*StoreReader::open(temp_ / "jobs.sqlite")));
  }
  void add(const std::string& job, v1::DependencyCondition condition = v1::DEPENDENCY_CONDITION_OK) {
    v1::JobDependency& each = *request_.add_after();
    each.set_job(job);
    each.set_condition(condition);
  }

  testing_support::TempDir temp_;
  BatchWriter writer_;
  std::optional<StoreReader> reader_;
  v1::SubmitRequest request_;
};

TEST_F(DependenciesTest, OnlyJobsThatHaveNotEndedAreAwaited) {
  add("aa");
  add("bbbbbbbb", v1::DEPENDENCY_CONDITION_ANY);
  EXPECT_THAT(*read_dependencies(*reader_, request_),
              ElementsAre(model::JobDependency{job_id("aaaaaaaa"), AfterEnd::kOk}));
}

TEST_F(DependenciesTest, AJobThatHasFailedIsRefused) {
  add("bbbbbbbb");
  const base::Status status = read_dependencies(*reader_, request_).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(
      status.message(),
      "after: job bbbbbbbb has ended as FAILED with exit code 3; use bbbbbbbb:any, or rerun it and name the new job");
}

TEST_F(DependenciesTest, AnUnknownJobIsRefused) {
  for (const char* const job : {"zzzzzzzz", "zz"}) {
    request_.clear_after();
    add(job);
    const base::Status status = read_dependencies(*reader_, request_).status();
    EXPECT_EQ(status.code(), Code::kNotFound);
    EXPECT_EQ(status.message(),
              fmt::format("after: unknown job '{}'; an ended job is removed when its retention time is over", job));
  }
}

TEST_F(DependenciesTest, AJobIsNamedOnce) {
  add("aa");
  add("aaaaaaaa", v1::DEPENDENCY_CONDITION_ANY);
  EXPECT_EQ(read_dependencies(*reader_, request_).status().message(), "after: job aaaaaaaa is named twice");
}

TEST_F(DependenciesTest, ARepeatedRequestIsNotJudgedAgain) {
  add("bbbbbbbb");
  request_.set_request_id("once");
  EXPECT_THAT(*read_dependencies(*reader_, request_), IsEmpty());
}

}  // namespace
}  // namespace muster::launcherd::dependencies_test
