// Tests jobs whose ranks live on: after the end of the launcherd that ran them, and what they hold while they run.
// tests/e2e/test_64_launcherd_live.py tests such jobs with agents.
#include <sys/stat.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/daemon/running_job.h"
#include "tests/unit/launcherd/store/store_rig.h"

namespace muster::launcherd::running_job_live_test {
namespace {

using testing::HasSubstr;
using testing_store::job_id;
using testing_store::TempDir;

constexpr const char* kJob = "aaaaaaaa";

class UnreachableHosts final : public Bootstrap {
 public:
  void start(const BootstrapTarget& target, JoinSource, std::function<void(base::Result<StartedAgent>)> done) override {
    done(base::unavailable("host {}: cannot be reached", target.name));
  }
  void run(const BootstrapTarget& target, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)> done) override {
    done(base::unavailable("host {}: cannot be reached", target.name));
  }
  void cancel() override {}
};

// Its hosts never answer.
class SilentHosts final : public Bootstrap {
 public:
  void start(const BootstrapTarget&, JoinSource, std::function<void(base::Result<StartedAgent>)>) override {}
  void run(const BootstrapTarget&, std::vector<std::string>,
           std::function<void(base::Result<CommandResult>)>) override {}
  void cancel() override {}
};

class LiveJobTest : public testing::Test {
 protected:
  explicit LiveJobTest(std::unique_ptr<Bootstrap> bootstrap)
      : logs_(std::move(*LogReader::start(loop_))), bootstrap_(std::move(bootstrap)) {
    ::mkdir((directory_ / "jobs").c_str(), 0700);
    HostPoolOptions options;
    options.state_file = directory_ / "agents";
    pool_ = std::move(*HostPool::start(loop_, clock_, std::move(options), bootstrap_.get()));
    surroundings_.loop = &loop_;
    surroundings_.clock = &clock_;
    surroundings_.logs = logs_.get();
    surroundings_.pool = pool_.get();
    surroundings_.jobs_directory = directory_ / "jobs";
    surroundings_.on_line = [](const std::string&) {};
  }

  TempDir directory_;
  base::SystemClock clock_;
  base::Loop loop_;
  std::unique_ptr<LogReader> logs_;
  const std::unique_ptr<Bootstrap> bootstrap_;
  std::unique_ptr<HostPool> pool_;
  JobSurroundings surroundings_;
};

class AbandonedLiveJob : public LiveJobTest {
 protected:
  AbandonedLiveJob() : LiveJobTest(std::make_unique<UnreachableHosts>()) {
    resumed_.job.state = model::JobState::kRunning;
    resumed_.recovery.attempt = 3;
    resumed_.recovery.secret = std::string(64, 'a');
    resumed_.recovery.placement = model::place_as_listed({{.name = "n1"}, {.name = "n2"}}, {0, 1});
    resumed_.ranks = {{.attempt = 3, .rank = 0, .state = model::RankState::kRunning, .host = "n1", .pid = 7},
                      {.attempt = 3, .rank = 1, .state = model::RankState::kFailed, .host = "n2"}};
  }
  RunningJobOwner owner() {
    return {.record = [this](const Batch& batch) { changes_.insert(changes_.end(), batch.begin(), batch.end()); },
            .on_ended = [this] { loop_.stop(); }};
  }
  void run(RunningJob& job) {
    model::JobSpec spec;
    spec.live.emplace();
    job.start(spec, {.hold = false});
    const base::Timer limit = loop_.after(std::chrono::seconds(10), [this] { loop_.stop(); });
    loop_.run();
  }
  std::string last_reason() const {
    std::string reason;
    for (const Change& change : changes_) {
      const auto* const event = std::get_if<NewEvent>(&change);
      if (event != nullptr && event->job_step) reason = event->job_step->reason;
    }
    return reason;
  }
  int stopped_ranks() const {
    int stopped = 0;
    for (const Change& change : changes_) {
      const auto* const event = std::get_if<NewEvent>(&change);
      if (event == nullptr || !event->rank_step) continue;
      EXPECT_EQ(event->rank_step->attempt, 3);
      if (event->rank_step->to == model::RankState::kStopped) ++stopped;
    }
    return stopped;
  }

  ResumedJob resumed_{.job = {.id = job_id(kJob)}, .recovery = {}, .ranks = {}};
  std::vector<Change> changes_;
};

TEST_F(AbandonedLiveJob, EndsAsFailedAndNamesHostsThatMayHaveProcesses) {
  RunningJob job(surroundings_, resumed_, owner());
  run(job);
  EXPECT_TRUE(job.is_over());
  EXPECT_EQ(job.state(), model::JobState::kFailed);
  EXPECT_FALSE(job.holds());
  EXPECT_THAT(last_reason(), HasSubstr("submit it again; n1: could not be searched"));
  EXPECT_EQ(stopped_ranks(), 1) << "the other one had ended before";
  EXPECT_EQ(job.allocation().size, 2);
}

TEST_F(AbandonedLiveJob, EndsAsKilledIfItWasStopped) {
  resumed_.recovery.stop = StopCause::kTerminate;
  resumed_.recovery.stop_reason = "killed";
  RunningJob job(surroundings_, resumed_, owner());
  run(job);
  EXPECT_EQ(job.state(), model::JobState::kKilled);
  EXPECT_THAT(last_reason(), HasSubstr("killed; n1: could not be searched"));
}

TEST_F(AbandonedLiveJob, CannotBeResized) {
  RunningJob job(surroundings_, resumed_, owner());
  EXPECT_EQ(job.resize(3, {}).code(), base::Code::kAborted);
  EXPECT_EQ(job.could_grow_to(8), 2);
  EXPECT_EQ(job.size_on("n2"), 1);
  run(job);
  EXPECT_EQ(job.resize(3, {}).code(), base::Code::kFailedPrecondition);
}

// A job of four ranks on two hosts. The test plays its runner.
class RunningLiveJob : public LiveJobTest {
 protected:
  RunningLiveJob() : LiveJobTest(std::make_unique<SilentHosts>()) {}

  void start(int min_ranks) {
    model::JobSpec spec;
    spec.command = {"true"};
    spec.workdir = "/";
    spec.live.emplace();
    spec.live->min_ranks = min_ranks;
    job_.set_share("n1", model::HostShare{.cpus = {0, 1}});
    job_.set_share("n2", model::HostShare{.cpus = {0, 1}});
    job_.start(spec, {.hold = false});
    runner().on_running();
    runner().on_bound({bound(0, "n1", 0), bound(1, "n1", 1), bound(2, "n2", 0), bound(3, "n2", 1)});
  }
  RunningJobOwner owner() {
    return {.record = [](const Batch&) {},
            .on_ended = [] {},
            .offers =
                [this](Availability) {
                  ++offers_;
                  return std::vector<model::HostSpec>{{.name = "n3", .slots = 2}};
                },
            // The queue offers what has become free to the jobs that wait.
            .reallocate = [this](const Reallocation&) { loop_.post([this] { job_.hosts_changed(); }); },
            .when_stored = [this](const Batch&, const Stored& done) { done(store_); },
            .on_generation = [](GenerationCause) {}};
  }
  // The runner's reports go to the job through a private base class.
  JobObserver& runner() { return (JobObserver&)job_; }
  static model::BoundRank bound(int rank, const std::string& host, int cpu) {
    return {.rank = rank, .host = host, .cpus = {cpu}};
  }
  // Rank 3 on n2 has ended, and the job continues with three ranks.
  void shrink(const std::vector<int>& former) {
    ASSERT_TRUE(job_.resize(3, {}).ok());
    runner().on_live_hosts({.hosts = {{.name = "n1", .processes = 2, .has_agent = true},
                                      {.name = "n2", .processes = 1, .has_agent = true}}});
    EXPECT_EQ(job_.allocation().size, 3);
    EXPECT_EQ(cpus_of_n2(), (std::vector{0, 1})) << "the rank that has ended is not known yet";
    model::GenerationBegan began{.number = 1, .from = 4, .to = 3, .former = former};
    began.placement = model::place_as_listed({{.name = "n1"}, {.name = "n2"}}, {0, 0, 1});
    runner().on_event(began);
  }
  std::vector<int> cpus_of_n2() { return job_.allocation().hosts.at(1).share.value().cpus; }
  void turn_for(base::Duration time) {
    const base::Timer limit = loop_.after(time, [this] { loop_.stop(); });
    loop_.run();
  }

  base::Status store_;
  int offers_ = 0;
  RunningJob job_{surroundings_, job_id(kJob), model::place_as_listed({{.name = "n1"}, {.name = "n2"}}, {0, 0, 1, 1}),
                  owner()};
};

TEST_F(RunningLiveJob, GivesCoresBackWhenAGenerationBegins) {
  start(1);
  shrink({0, 1, 2});
  EXPECT_EQ(cpus_of_n2(), std::vector{0});
}

TEST_F(RunningLiveJob, GivesCoresBackWhenNewRanksAreBound) {
  start(1);
  shrink({0, 1, -1});
  EXPECT_EQ(cpus_of_n2(), (std::vector{0, 1})) << "the cores of the new rank are not known yet";
  runner().on_bound({bound(0, "n1", 0), bound(1, "n1", 1), bound(2, "n2", 1)});
  EXPECT_EQ(cpus_of_n2(), std::vector{1});
}

TEST_F(RunningLiveJob, PausesAfterFurtherSlotsCouldNotBeStored) {
  start(4);
  store_ = base::unavailable("the disk is full");
  runner().on_live_hosts(
      {.hosts = {{.name = "n1", .processes = 2, .has_agent = true}, {.name = "n2", .is_excluded = true}}, .lacks = 2});
  turn_for(std::chrono::milliseconds(300));
  EXPECT_EQ(offers_, 1);
  EXPECT_EQ(job_.size(), 2);
  store_ = base::ok_status();
  turn_for(std::chrono::milliseconds(1'500));
  EXPECT_EQ(offers_, 2);
  EXPECT_EQ(job_.size(), 4) << "it tries again by itself";
}

}  // namespace
}  // namespace muster::launcherd::running_job_live_test
