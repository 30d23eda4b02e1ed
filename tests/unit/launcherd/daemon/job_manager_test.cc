// Tests JobManager with a real store, and hosts on which no agent can be started: the decisions before ranks run.
// tests/daemon tests running jobs.
#include "launcherd/daemon/job_manager.h"

#include <sys/socket.h>

#include <fstream>
#include <string_view>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/daemon/job_view.h"
#include "launcherd/daemon/recovery.h"
#include "proto/muster/v1/pool.pb.h"
#include "tests/unit/launcherd/agents/played_agent.h"
#include "tests/unit/launcherd/daemon/job_manager_rig.h"

namespace muster::launcherd::job_manager_test {
namespace {

using base::Code;
using ::testing::HasSubstr;
using JobManagerTest = testing_support::JobManagerRig;
using testing_support::request_of;

constexpr int kTooManyRanks = 400'000;

std::vector<model::HostSpec> large_hosts() {
  std::vector<model::HostSpec> hosts;
  for (const char* const name : {"n1", "n2", "n3", "n4"}) hosts.push_back({.name = name, .slots = 100'000});
  return hosts;
}

// Reports a host of two cores, and ignores all other messages.
class FakeAgent {
 public:
  StartedAgent start(base::Loop& loop, const std::string& source) {
    v1::AgentJoin join;
    EXPECT_TRUE(join.ParseFromString(source.substr(sizeof(std::uint32_t))));
    auto stdio = base::make_socketpair(SOCK_STREAM);
    EXPECT_TRUE(stdio.ok()) << stdio.status();
    constexpr std::string_view kLine = "MUSTER-LINK dial\n";
    EXPECT_TRUE(base::write_all_blocking(stdio->second.get(), kLine.data(), kLine.size()).ok());
    v1::Hello hello;
    hello.set_hostname("n1");
    for (int cpu = 0; cpu < 2; ++cpu) hello.add_cores()->add_cpus(cpu);
    client_ = testing_support::play_agent(loop, join, std::move(hello));
    StartedAgent started;
    started.stream = std::move(stdio->first);
    started.backend = "played";
    return started;
  }

 private:
  std::unique_ptr<agent::ControlClient> client_;
};

// The manager asks hosts without slots for their GPUs. Here it can ask none.
TEST_F(JobManagerTest, HostsThatCannotBeAskedAreNamedAndCountAsOneSlot) {
  end();
  hosts_ = {{.name = "n1"}, {.name = "n2"}, {.name = "n3", .slots = 2}};
  has_changes_ = true;
  begin();
  EXPECT_THAT(manager_->host_message("n1")->problem(), HasSubstr("launcherd is asking it for its GPUs"));
  EXPECT_EQ(manager_->host_message("n3")->problem(), "");
  // The reply comes when both hosts have been asked.
  const auto refused = submit(request_of(5));
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("n1..n3 together have only 4"));
  EXPECT_THAT(refused.status().message(),
              HasSubstr("n1 and n2 count each as one slot, because their GPUs are unknown"));
  EXPECT_THAT(lines_, ::testing::IsSupersetOf(
                          {HasSubstr("host n1: cannot be reached; jobs wait for it, and launcherd tries it again; it "
                                     "counts as one slot because its GPUs are unknown"),
                           HasSubstr("all hosts without given slots have reported their GPUs: 4 slots in total")}));
  EXPECT_EQ(manager_->host_message("n1")->problem(),
            "host n1: cannot be reached; it counts as one slot because its GPUs are unknown");
  EXPECT_EQ(manager_->host_message("n1")->slots(), 1);
  EXPECT_EQ(manager_->hosts().total_slots(), 4);
  manager_->replace_hosts({{.name = "n1"}, {.name = "n2", .slots = 4}});  // n1 is still down
  EXPECT_EQ(manager_->hosts().slots()[0].source, SlotSource::kUnknown);
  EXPECT_EQ(manager_->hosts().slots()[0].free(), 0);
  EXPECT_EQ(manager_->hosts().slots()[1].free(), 0);
}

TEST_F(JobManagerTest, WhoLeavesAnswersSubmissionsThatWaitForACount) {
  end();
  hosts_ = {{.name = "n1"}};
  begin();  // begin() without changes: the GPUs were never counted
  std::optional<base::Status> refused;
  manager_->submit(request_of(4), "bob",
                   [&](const base::Result<v1::SubmitResponse>& reply) { refused = reply.status(); });
  EXPECT_FALSE(refused.has_value());
  manager_->leave([] {});
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->code(), Code::kUnavailable);
}

TEST_F(JobManagerTest, WhatIsAnsweredIsStoredWithoutValuesInItsSpec) {
  drain_all();
  const auto answer = submit(request_of(3));
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kQueued);
  EXPECT_EQ(stored(answer->job_id()).last_sequence, 1u);
  auto reader = StoreReader::open(path());
  EXPECT_EQ(reader->spec(testing_store::job_id(answer->job_id()))->find("s3cret"), std::string::npos);
  EXPECT_NE(reader->environment(testing_store::job_id(answer->job_id()))->find("s3cret"), std::string::npos);
  EXPECT_EQ(reason(answer->job_id()), "needs 3 slots, 0 are free on n1 and n2; n1 and n2 are drained");
}

TEST_F(JobManagerTest, ARequestIdIsOneJobAlsoAfterItsEnd) {
  drain_all();
  const auto first = submit(request_of(1, "same"));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(submit(request_of(1, "same"))->job_id(), first->job_id());
  EXPECT_EQ(submit(request_of(2, "same")).status().code(), Code::kAlreadyExists);
  manager_->kill(testing_store::job_id(first->job_id()), false,
                 [](const base::Status& status) { EXPECT_TRUE(status.ok()); });
  run_until(done_ + 1);
  EXPECT_EQ(submit(request_of(1, "same"))->job_id(), first->job_id());
  EXPECT_EQ(stored(first->job_id()).state, model::JobState::kKilled);
}

TEST_F(JobManagerTest, WhatCanNeverRunIsRefused) {
  const auto refused = submit(request_of(5));
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("n1 and n2 together have only 4"));
}

// The store keeps the placement of a job in one piece.
TEST_F(JobManagerTest, MoreRanksThanCanBeStoredAreRefused) {
  manager_->replace_hosts(large_hosts());
  const auto refused = submit(request_of(kTooManyRanks));
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_THAT(refused.status().message(), HasSubstr("ask for fewer ranks"));
}

TEST_F(JobManagerTest, MoreGpusThanCanBeStoredAreRefusedTheSame) {
  constexpr int kHosts = 7'000;
  auto shape = std::make_shared<model::NodeShape>();
  for (int i = 0; i < 16; ++i) {
    shape->cores.push_back({.cpus = {i}});
    model::GpuShape& gpu = shape->gpus.emplace_back();
    gpu.index = i;
    gpu.uuid = fmt::format("GPU-00000000-0000-0000-0000-{:012}", i);
  }
  std::vector<SlotHost> hosts(kHosts);
  for (int i = 0; i < kHosts; ++i) {
    SlotHost& host = hosts[static_cast<std::size_t>(i)];
    host.host.name = fmt::format("n{}", i);
    host.slots = 1;
    host.is_shared = true;
  }
  JobAdmission admission(&rig_->store(), &clock_, false);
  std::optional<base::Result<v1::SubmitResponse>> answer;
  const auto ask = [&] {
    admission.submit(
        request_of(kHosts), "ann", hosts, {}, [](const JobAdmission::Admitted&) {},
        [&](base::Result<v1::SubmitResponse> got) {
          answer = std::move(got);
          count();
        });
  };
  ask();
  run_until(1);
  EXPECT_TRUE(answer->ok()) << answer->status() << ": where nothing is known there may be few";
  for (SlotHost& host : hosts) host.shape = shape;
  ask();
  EXPECT_EQ(answer->status().code(), Code::kInvalidArgument);
  EXPECT_THAT(answer->status().message(), HasSubstr("ask for fewer ranks"));
}

TEST_F(JobManagerTest, AStartThatCannotBeStoredEndsTheJob) {
  v1::StoredSpec spec;
  *spec.mutable_request() = request_of(kTooManyRanks);
  spec.set_size(kTooManyRanks);
  NewJob job = testing_store::new_job("aaaaaaaa");  // an earlier launcherd accepted it
  job.spec = spec.SerializeAsString();
  job.environment.clear();
  EXPECT_TRUE(rig_->append({job}).ok());
  end();
  hosts_ = large_hosts();
  begin();
  run_until(1);
  EXPECT_FALSE(manager_->is_open(testing_store::job_id("aaaaaaaa")));
  end();
  EXPECT_EQ(stored("aaaaaaaa").state, model::JobState::kFailed);
  EXPECT_THAT(stored("aaaaaaaa").reason, HasSubstr("more than the limit"));
}

TEST_F(JobManagerTest, AJobThatCannotStartFailsAndGivesItsSlotsBack) {
  const auto answer = submit(request_of(4));
  ASSERT_TRUE(answer.ok()) << answer.status();
  run_until(done_ + 1);
  const auto again = submit(request_of(4));  // it starts only after the end of the first job
  run_until(done_ + 1);
  end();  // also writes pending changes
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kFailed);
  EXPECT_EQ(stored(answer->job_id()).exit_code, 125);
  EXPECT_THAT(stored(answer->job_id()).reason, HasSubstr("cannot be reached"));
  EXPECT_EQ(stored(again->job_id()).state, model::JobState::kFailed);
}

TEST_F(JobManagerTest, TheNextManagerKnowsWhatWaitsAndWhatIsDrained) {
  drain_all();
  const auto waits = submit(request_of(2));
  const auto runs = submit(request_of(1));
  EXPECT_TRUE(rig_->append({testing_store::step(runs->job_id(), model::JobState::kStarting)}).ok());
  end();
  begin();
  EXPECT_TRUE(manager_->is_open(testing_store::job_id(waits->job_id())));
  EXPECT_THAT(reason(waits->job_id()), HasSubstr("drained"));
  run_until(done_ + 1);  // the manager cannot resume the other job
  EXPECT_EQ(stored(runs->job_id()).state, model::JobState::kLost);
  EXPECT_EQ(stored(waits->job_id()).state, model::JobState::kQueued);
}

TEST_F(JobManagerTest, TheNextManagerKnowsWhatRunningJobsHaveOfTheirHosts) {
  drain_all();
  const auto runs = submit(request_of(1));
  Recovery recovery;
  recovery.placement = model::place_as_listed({{.name = "n1"}}, {0});
  recovery.placement.hosts[0].share = model::HostShare{.cpus = {0, 1}, .devices = {"GPU-a"}};
  recovery.secret = std::string(16, 's');
  EXPECT_TRUE(
      rig_->append({testing_store::step(runs->job_id(), model::JobState::kStarting),
                    NewRecovery{.job = testing_store::job_id(runs->job_id()), .content = recovery_bytes(recovery)}})
          .ok());
  end();
  begin();
  const SlotHost& host = manager_->hosts().slots()[0];
  EXPECT_EQ(host.used, 1);
  EXPECT_TRUE(host.use.devices().contains("GPU-a"));
  EXPECT_EQ(host.use.cpus(), (std::vector<int>{0, 1}));
  run_until(done_ + 1);  // no agent holds the job
  EXPECT_TRUE(manager_->hosts().slots()[0].use.devices().empty());
}

// The job starts only when the GPUs of its hosts are known.
TEST_F(JobManagerTest, TheAgentsOfItsHostsAreStartedForAJobThatAsksForGpus) {
  has_changes_ = true;
  v1::SubmitRequest request = request_of(1);
  request.mutable_spec()->set_gpu_bind("one");
  request.mutable_spec()->add_hosts()->set_name("n2");
  const auto answer = submit(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  base::Timer looking = rig_->loop().every(std::chrono::milliseconds(5), [&] {
    if (!bootstrap_.tried.empty()) count();
  });
  run_until(done_ + 1);
  looking.cancel();
  EXPECT_THAT(bootstrap_.tried, ::testing::ElementsAre("n2"));
  EXPECT_TRUE(manager_->is_open(testing_store::job_id(answer->job_id()))) << "it waits for the host";
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kQueued);
  EXPECT_THAT(reason(answer->job_id()), HasSubstr("n2 cannot be reached"));
}

// The job comes from a launcherd that knew no shares.
TEST_F(JobManagerTest, NobodyComesToAJobOfWhichNobodyKnowsWhatItHas) {
  drain_all();
  const auto runs = submit(request_of(1));
  const auto waits = submit(request_of(1));
  Recovery recovery;
  recovery.placement = model::place_as_listed({{.name = "n1"}}, {0});
  recovery.secret = std::string(16, 's');
  v1::JobRecovery old;
  ASSERT_TRUE(old.ParseFromString(recovery_bytes(recovery)));
  old.clear_shares();
  EXPECT_TRUE(
      rig_->append({testing_store::step(runs->job_id(), model::JobState::kStarting),
                    testing_store::step(runs->job_id(), model::JobState::kRunning),
                    NewRecovery{.job = testing_store::job_id(runs->job_id()), .content = old.SerializeAsString()},
                    StoredHost{.name = "n1", .slots = 2, .drained = false}})
          .ok());
  end();
  begin();
  const SlotHost& host = manager_->hosts().slots()[0];
  EXPECT_EQ(host.used, 1);
  EXPECT_TRUE(host.is_starting());
  EXPECT_EQ(reason(waits->job_id()), "waits until n1 reports its cores and GPUs: another job is starting there");
}

// Another launcherd may have written it.
TEST_F(JobManagerTest, AWaitingJobThatIsNotUnderstoodKeepsNobodyFromStarting) {
  drain_all();
  const auto good = submit(request_of(1));
  v1::StoredSpec strange;
  *strange.mutable_request() = request_of(1);
  strange.mutable_request()->mutable_spec()->set_gpu_bind("nonsense");
  strange.set_size(1);
  NewJob job = testing_store::new_job("aaaaaaaa");
  job.spec = strange.SerializeAsString();
  NewJob broken = testing_store::new_job("bbbbbbbb");
  broken.spec = "\xff\xff\xff";
  EXPECT_TRUE(rig_->append({job, broken}).ok());
  end();
  begin();
  run_until(2);
  EXPECT_GT(forget_at_, clock_.wall() + std::chrono::hours(24));
  EXPECT_EQ(stored("aaaaaaaa").state, model::JobState::kFailed);
  EXPECT_EQ(stored("aaaaaaaa").exit_code, 125);
  EXPECT_THAT(stored("aaaaaaaa").reason, HasSubstr("unknown value 'nonsense'"));
  EXPECT_EQ(stored("bbbbbbbb").state, model::JobState::kFailed);
  EXPECT_TRUE(manager_->is_open(testing_store::job_id(good->job_id())));
  auto reader = StoreReader::open(path());
  v1::ListJobsRequest all;
  all.set_all(true);
  const auto list = read_jobs(*reader, all);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->jobs_size(), 3);
}

// The agent's Hello arrives after the job's end, but before the manager handles that end.
TEST_F(JobManagerTest, NothingIsStoredOfAJobAfterItsEnd) {
  FakeAgent agent;
  bootstrap_.play = [&](const std::string& join) { return agent.start(rig_->loop(), join); };
  const auto answer = submit(request_of(1));
  ASSERT_TRUE(answer.ok()) << answer.status();
  base::Timer looking = rig_->loop().every(std::chrono::milliseconds(5), [&] {
    if (pool_->state({.name = "n1"}) == v1::AGENT_STATE_UP) count();
  });
  run_until(done_ + 1);
  looking.cancel();
  manager_->kill(testing_store::job_id(answer->job_id()), false,
                 [](const base::Status& status) { EXPECT_TRUE(status.ok()) << status; });
  manager_->agent_changed("n1");
  run_until(done_ + 1);
  drain_all();  // by then everything recorded before is stored or refused
  EXPECT_THAT(lines_, ::testing::Not(::testing::Contains(HasSubstr("could not be stored"))));
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kKilled);
}

TEST_F(JobManagerTest, ADeadlineThatHasPassedEndsAWaitingJob) {
  drain_all();
  v1::SubmitRequest request = request_of(1);
  request.mutable_spec()->mutable_deadline()->set_seconds(1);
  const auto answer = submit(request);
  ASSERT_TRUE(answer.ok());
  run_until(done_ + 1);
  EXPECT_EQ(stored(answer->job_id()).exit_code, 124);
  EXPECT_EQ(stored(answer->job_id()).state, model::JobState::kKilled);
}

TEST_F(JobManagerTest, WhoLeavesTakesNothingMore) {
  bool has_left = false;
  manager_->leave([&] { has_left = true; });
  EXPECT_TRUE(has_left);
  EXPECT_EQ(submit(request_of(1)).status().code(), Code::kUnavailable);
}

TEST_F(JobManagerTest, LeavesAJobWhoseRanksItEndsToTheNextManager) {
  drain_all();
  v1::SubmitRequest request = request_of(1);
  request.mutable_spec()->mutable_failure()->set_on_failure(v1::ON_FAILURE_LIVE);
  const auto answer = submit(request);
  ASSERT_TRUE(answer.ok()) << answer.status();
  const base::JobId id = testing_store::job_id(answer->job_id());
  Recovery recovery;
  recovery.placement = model::place_as_listed({{.name = "n1"}}, {0});
  recovery.secret = std::string(16, 's');
  EXPECT_TRUE(rig_->append({testing_store::step(id.str(), model::JobState::kStarting),
                            testing_store::step(id.str(), model::JobState::kRunning),
                            NewRecovery{.job = id, .content = recovery_bytes(recovery)}})
                  .ok());
  end();
  bootstrap_.is_silent = true;
  begin();
  bool has_left = false;
  manager_->leave([&] { has_left = true; });
  EXPECT_TRUE(has_left) << "n1 may be unreachable for a long time";
  end();
  EXPECT_EQ(stored(id.str()).state, model::JobState::kStopping);
  bootstrap_.is_silent = false;
  begin();
  EXPECT_TRUE(manager_->is_open(id));
  run_until(done_ + 1);
  EXPECT_FALSE(manager_->is_open(id));
}

TEST_F(JobManagerTest, QuestionsAboutJobsThatDoNotRun) {
  drain_all();
  const auto answer = submit(request_of(1));
  const base::JobId id = testing_store::job_id(answer->job_id());
  EXPECT_EQ(manager_->signal(id, 10).code(), Code::kFailedPrecondition);
  EXPECT_EQ(manager_
                ->stacks(
                    id, {}, [](const v1::ProcessStack&) {}, [] {})
                .code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(manager_->signal(testing_store::job_id("zzzzzzzz"), 10).code(), Code::kNotFound);
  EXPECT_TRUE(manager_->hosts_of(id.str()).empty());
  EXPECT_TRUE(manager_->hosts_of("no id").empty());
  EXPECT_FALSE(manager_->host_names().empty());
  EXPECT_TRUE(manager_->load_sample().jobs.empty());
  EXPECT_TRUE(manager_->load_sample().hosts.empty());  // no agent is up
}

}  // namespace
}  // namespace muster::launcherd::job_manager_test
