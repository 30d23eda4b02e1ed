// Tests JobManager with a real store and jobs that may change their hosts, on hosts that cannot be reached.
// tests/e2e/test_58_launcherd_elastic.py tests such jobs with agents.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/daemon/job_manager.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::job_manager_elastic_test {
namespace {

using base::Code;
using ::testing::HasSubstr;
using testing_store::job_id;
using testing_store::StoreRig;
using testing_store::TempDir;

class UnreachableHosts final : public Bootstrap {
 public:
  void start(const BootstrapTarget& target, JoinSource, std::function<void(base::Result<StartedAgent>)> done) override {
    tried.push_back(target.name);
    done(base::error(Code::kUnavailable, "host {}: cannot be reached", target.name));
  }
  void run(const BootstrapTarget& target, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    done(base::error(Code::kUnavailable, "host {}: cannot be reached", target.name));
  }
  void cancel() override {}

  std::vector<std::string> tried;
};

class JobManagerElasticTest : public ::testing::Test {
 protected:
  JobManagerElasticTest() : rig_(directory_ / "jobs.sqlite"), logs_(std::move(*LogReader::start(rig_.loop()))) {
    ::mkdir((directory_ / "jobs").c_str(), 0700);
    HostPoolOptions options;
    options.state_file = directory_ / "agents";
    options.on_change = [this](const BootstrapTarget& host) {
      if (manager_ != nullptr) manager_->agent_changed(host.name);
    };
    pool_ = std::move(*HostPool::start(rig_.loop(), clock_, std::move(options), &bootstrap_));
    JobSurroundings surroundings;
    surroundings.loop = &rig_.loop();
    surroundings.clock = &clock_;
    surroundings.logs = logs_.get();
    surroundings.pool = pool_.get();
    surroundings.jobs_directory = directory_ / "jobs";
    surroundings.on_line = [this](const std::string& line) { lines_.push_back(line); };
    manager_ = std::make_unique<JobManager>(
        std::move(surroundings), &rig_.store(),
        HostTable({{.name = "n1", .slots = 2}, {.name = "n2", .slots = 2}, {.name = "n3", .slots = 2}}));
    manager_->on_ended = [this](const base::JobId&, base::WallTime) { count(); };
  }
  void count() {
    ++done_;
    rig_.done();
  }
  void drain(const char* host) {
    manager_->drain(host, "test", [this](const base::Result<v1::LauncherHost>&) { count(); });
    ASSERT_TRUE(rig_.run_until(done_ + 1));
  }
  std::string submit(int size, v1::OnFailure on_failure) {
    v1::SubmitRequest request;
    request.mutable_spec()->add_command("true");
    request.mutable_spec()->set_working_directory("/");
    request.mutable_spec()->set_size(size);
    request.mutable_spec()->mutable_failure()->set_on_failure(on_failure);
    std::string id;
    manager_->submit(request, "", [&](const base::Result<v1::SubmitResponse>& reply) {
      EXPECT_TRUE(reply.ok()) << reply.status();
      id = reply.ok() ? reply->job_id() : "";
      count();
    });
    EXPECT_TRUE(rig_.run_until(done_ + 1));
    return id;
  }
  base::Status resize(const std::string& id, const v1::ResizeRequest& request) {
    std::optional<base::Status> status;
    manager_->resize(job_id(id), request, [&](const base::Result<v1::ResizeResponse>& got) { status = got.status(); });
    return status.value_or(base::unavailable("no answer yet"));
  }
  StoredJob stored(const std::string& id) { return *StoreReader::open(directory_ / "jobs.sqlite")->job(job_id(id)); }
  int used_slots() const {
    int used = 0;
    for (const SlotHost& host : manager_->hosts().slots()) used += host.used;
    return used;
  }

  TempDir directory_;
  base::SystemClock clock_;
  StoreRig rig_;
  std::unique_ptr<LogReader> logs_;
  UnreachableHosts bootstrap_;
  std::unique_ptr<HostPool> pool_;
  std::unique_ptr<JobManager> manager_;
  std::vector<std::string> lines_;
  int done_ = 0;
};

// Each host fails to start, so the job goes from one to the next until none is left.
TEST_F(JobManagerElasticTest, AJobThatMayReplaceHostsTriesOthersAndGivesThemAllBack) {
  const std::string id = submit(2, v1::ON_FAILURE_REPLACE);
  ASSERT_TRUE(rig_.run_until(done_ + 1));  // its end
  EXPECT_THAT(bootstrap_.tried, testing::ElementsAre("n1", "n2", "n3"));
  ASSERT_TRUE(rig_.record({}).ok());  // the end is on its way to the store before this
  EXPECT_EQ(stored(id).state, model::JobState::kFailed);
  EXPECT_EQ(stored(id).attempt, 2);
  EXPECT_EQ(manager_->counters().generations_after_lost_host, 2U);
  EXPECT_EQ(used_slots(), 0);
  EXPECT_THAT(lines_, testing::Contains(HasSubstr("n3 failed and no free host is left")));
}

TEST_F(JobManagerElasticTest, AJobThatKeepsItsHostsTriesNoOther) {
  const std::string id = submit(2, v1::ON_FAILURE_RESTART);
  ASSERT_TRUE(rig_.run_until(done_ + 1));
  EXPECT_THAT(bootstrap_.tried, testing::ElementsAre("n1"));
  ASSERT_TRUE(rig_.record({}).ok());
  EXPECT_EQ(stored(id).state, model::JobState::kFailed);
  EXPECT_EQ(stored(id).attempt, 0);
}

TEST_F(JobManagerElasticTest, RanksThatLiveOnStartOnTheHostsOfTheQueueAlone) {
  const std::string id = submit(2, v1::ON_FAILURE_LIVE);
  ASSERT_TRUE(rig_.run_until(done_ + 1));
  EXPECT_THAT(bootstrap_.tried, testing::ElementsAre("n1"));
  ASSERT_TRUE(rig_.record({}).ok());
  EXPECT_EQ(stored(id).state, model::JobState::kFailed);
  EXPECT_EQ(used_slots(), 0);
}

TEST_F(JobManagerElasticTest, RanksThatWouldLiveOnAreKilledIfLauncherdLeavesBeforeTheirStart) {
  manager_->on_change = [this](const base::JobId& id) {
    if (manager_->size_of(id)) manager_->leave([] {});  // its start is stored, but nothing runs yet
  };
  const std::string id = submit(2, v1::ON_FAILURE_LIVE);
  ASSERT_TRUE(rig_.run_until(done_ + 1));
  ASSERT_TRUE(rig_.record({}).ok());
  EXPECT_EQ(stored(id).state, model::JobState::kKilled);
  EXPECT_EQ(stored(id).reason, "launcherd was stopped");
  EXPECT_THAT(bootstrap_.tried, testing::IsEmpty());
  EXPECT_EQ(used_slots(), 0);
}

TEST_F(JobManagerElasticTest, ResizeRefusesWhatItCannotDo) {
  for (const char* const host : {"n1", "n2", "n3"}) drain(host);
  const std::string id = submit(2, v1::ON_FAILURE_SHRINK);
  v1::ResizeRequest request;
  request.set_size(4);
  EXPECT_EQ(resize("bbbbbbbb", request).code(), Code::kNotFound);
  const base::Status waits = resize(id, request);
  EXPECT_EQ(waits.code(), Code::kFailedPrecondition);
  EXPECT_THAT(waits.message(), HasSubstr("submit it with another -np"));
  EXPECT_FALSE(manager_->size_of(job_id(id)).has_value());
}

}  // namespace
}  // namespace muster::launcherd::job_manager_elastic_test
