// Tests the request of a rerun, from a real store.
#include "launcherd/daemon/rerun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "proto/job_spec_convert.h"
#include "proto/muster/v1/stored.pb.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::rerun_test {
namespace {

using base::Code;
using ::testing::HasSubstr;
using testing_store::job_id;
using testing_store::new_job;

v1::SubmitRequest request_of(const std::string& request_id) {
  v1::SubmitRequest request;
  request.mutable_spec()->add_command("train");
  request.mutable_spec()->set_size(3);
  request.set_request_id(request_id);
  request.set_name("a name");
  request.set_priority(7);
  request.set_held(true);
  request.mutable_retention()->set_seconds(99);
  request.add_labels()->set_name("site");
  v1::EnvVar& variable = *request.add_environment();
  variable.set_name("TOKEN");
  variable.set_value("s3cret");
  return request;
}

class RerunTest : public ::testing::Test {
 protected:
  RerunTest() : writer_(testing_store::open_writer(path())), reader_(std::move(*StoreReader::open(path()))) {}

  std::string path() const { return directory_ / "jobs.sqlite"; }
  void add(const std::string& id, const v1::SubmitRequest& request) {
    v1::StoredSpec spec;
    *spec.mutable_request() = proto::without_values(request);
    v1::StoredEnvironment environment;
    *environment.mutable_environment() = request.environment();
    NewJob job = new_job(id, request.request_id());
    job.priority = request.priority();
    job.spec = spec.SerializeAsString();
    job.environment = environment.SerializeAsString();
    ASSERT_TRUE(testing_store::commit(writer_, {job}).ok());
  }

  testing_store::TempDir directory_;
  BatchWriter writer_;
  StoreReader reader_;
};

TEST_F(RerunTest, TheRequestIsThatOfTheJob) {
  add("aaaaaaaa", request_of("first"));
  const auto rerun = read_rerun(reader_, job_id("aaaaaaaa"), "second");
  ASSERT_TRUE(rerun.ok()) << rerun.status();
  EXPECT_FALSE(rerun->known.has_value());
  ASSERT_TRUE(rerun->environment.has_value()) << "the job has not ended";
  const auto whole = complete_rerun(job_id("aaaaaaaa"), rerun->request, &*rerun->environment, testing_store::at(0));
  ASSERT_TRUE(whole.ok()) << whole.status();
  v1::SubmitRequest expected = request_of("second");
  expected.clear_held();
  EXPECT_EQ(whole->SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(read_rerun(reader_, job_id("zzzzzzzz"), "").status().code(), Code::kNotFound);
}

TEST_F(RerunTest, TheTermsAreThoseOfTheLastUpdate) {
  v1::SubmitRequest request = request_of("first");
  request.mutable_spec()->mutable_deadline()->set_seconds(5);
  request.add_after()->set_job("zzzzzzzz");
  add("aaaaaaaa", request);
  v1::StoredSpec spec;
  *spec.mutable_request() = proto::without_values(request);
  spec.mutable_deadline()->mutable_time()->set_seconds(6);
  const auto update = [&](const v1::StoredSpec& to) {
    const NewTerms terms{.job = job_id("aaaaaaaa"), .priority = 9, .spec = to.SerializeAsString()};
    ASSERT_TRUE(testing_store::commit(writer_, {terms}).ok());
  };
  update(spec);
  auto rerun = read_rerun(reader_, job_id("aaaaaaaa"), "");
  ASSERT_TRUE(rerun.ok()) << rerun.status();
  EXPECT_EQ(rerun->request.priority(), 9);
  EXPECT_EQ(rerun->request.spec().deadline().seconds(), 6);
  EXPECT_TRUE(rerun->request.after().empty()) << "a rerun waits for no job";
  spec.mutable_deadline()->clear_time();
  update(spec);
  EXPECT_FALSE(read_rerun(reader_, job_id("aaaaaaaa"), "")->request.spec().has_deadline());
}

TEST_F(RerunTest, AnEndedJobHasNoStoredEnvironment) {
  add("aaaaaaaa", request_of(""));
  ASSERT_TRUE(testing_store::commit(writer_, {testing_store::step("aaaaaaaa", model::JobState::kKilled, "", 1)}).ok());
  const auto rerun = read_rerun(reader_, job_id("aaaaaaaa"), "");
  ASSERT_TRUE(rerun.ok()) << rerun.status();
  EXPECT_FALSE(rerun->environment.has_value());
  const auto whole = complete_rerun(job_id("aaaaaaaa"), rerun->request, nullptr, testing_store::at(0));
  EXPECT_EQ(whole.status().code(), Code::kFailedPrecondition);
  EXPECT_EQ(whole.status().message(), "launcherd no longer has the environment of job aaaaaaaa; submit it again");
  v1::SubmitRequest without = rerun->request;
  without.clear_environment();
  EXPECT_TRUE(complete_rerun(job_id("aaaaaaaa"), without, nullptr, testing_store::at(0)).ok()) << "it needs none";
}

TEST_F(RerunTest, ARequestIdIsOneJob) {
  add("aaaaaaaa", request_of("first"));
  v1::SubmitRequest again = request_of("again");
  again.clear_held();
  add("bbbbbbbb", again);
  const auto rerun = read_rerun(reader_, job_id("aaaaaaaa"), "again");
  ASSERT_TRUE(rerun.ok()) << rerun.status();
  EXPECT_EQ(rerun->known, job_id("bbbbbbbb"));
  again.set_request_id("other");
  again.set_priority(8);
  add("cccccccc", again);
  const base::Status refused = read_rerun(reader_, job_id("aaaaaaaa"), "other").status();
  EXPECT_EQ(refused.code(), Code::kAlreadyExists);
  EXPECT_THAT(refused.message(), HasSubstr("job cccccccc"));
}

TEST_F(RerunTest, ADeadlineThatHasPassedIsRefused) {
  v1::SubmitRequest request = request_of("");
  request.clear_environment();
  request.mutable_spec()->mutable_deadline()->set_seconds(1'700'000'050);
  EXPECT_TRUE(complete_rerun(job_id("aaaaaaaa"), request, nullptr, testing_store::at(49)).ok());
  const auto late = complete_rerun(job_id("aaaaaaaa"), request, nullptr, testing_store::at(50));
  EXPECT_EQ(late.status().code(), Code::kFailedPrecondition);
  EXPECT_THAT(late.status().message(), HasSubstr("deadline of job aaaaaaaa has passed"));
}

}  // namespace
}  // namespace muster::launcherd::rerun_test
