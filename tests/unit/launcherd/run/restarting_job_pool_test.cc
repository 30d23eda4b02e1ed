// Jobs whose hosts belong to a pool, with fake agents: how they get other hosts and another size.
#include "launcherd/run/restarting_job.h"

#include <csignal>
#include <functional>
#include <map>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/agents/job_agents.h"
#include "model/exit_code.h"
#include "tests/unit/launcherd/run/no_output.h"
#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::restarting_job_pool_test {
namespace {

using namespace std::chrono_literals;
using base::Code;
using model::OnFailure;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The agents of one generation. They answer everything at once, and their ranks run until they are ended.
class PooledFakes final : public JobAgents {
 public:
  explicit PooledFakes(base::Loop& loop) : loop_(loop) {}

  base::Status start(std::vector<AgentHost> hosts, OutputSink*, AgentListener* listener) override {
    to = listener;
    for (const AgentHost& host : hosts) names.push_back(host.target.name);
    for (int agent = 0; agent < static_cast<int>(hosts.size()); ++agent) later([this, agent] { come_up(agent); });
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override {
    later([this, agent, message] { answer(agent, message); });
  }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int) override {}
  void drop(int) override {}
  void sweep(int, std::function<void(base::Result<CommandResult>)> done) override {
    later([done] { done(CommandResult{0, "", ""}); });
  }

  void end(int rank, int wait_status, bool is_ours = false) {
    const auto found = running.find(rank);
    if (found == running.end()) return;
    const int agent = found->second;
    running.erase(found);
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(rank);
    exited.mutable_rank_exited()->set_wait_status(wait_status);
    exited.mutable_rank_exited()->set_stopped_by_us(is_ours);
    to->agent_message(agent, exited);
    if (std::ranges::any_of(running, [agent](const auto& each) { return each.second == agent; })) return;
    v1::AgentMessage empty;
    empty.mutable_host_empty()->set_no_output(true);
    to->agent_message(agent, empty);
  }
  void lose(int agent) {
    std::erase_if(running, [agent](const auto& each) { return each.second == agent; });
    to->agent_gone(agent, base::error(Code::kUnavailable, "killed"));
  }

  std::vector<std::string> names;
  std::map<int, int> running;  // the agent of each rank
  std::vector<int> signals;
  AgentListener* to = nullptr;

 private:
  void later(base::Loop::Task task) { loop_.post(gate_.wrap(std::move(task))); }
  void come_up(int agent) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(names[static_cast<std::size_t>(agent)]);
    for (int cpu = 0; cpu < 4; ++cpu) up.hello.add_cores()->add_cpus(cpu);
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.0.{}", agent + 1));
    to->agent_started(agent);
    to->agent_up(agent, std::move(up));
  }
  void answer(int agent, const v1::LauncherMessage& message) {
    v1::AgentMessage reply;
    if (message.has_prepare()) {
      reply.mutable_prepared()->set_interface("eth0");
      reply.mutable_prepared()->set_address(fmt::format("10.0.0.{}", agent + 1));
      to->agent_message(agent, reply);
    } else if (message.has_launch()) {
      for (const v1::LaunchRank& rank : message.launch().ranks()) {
        running[rank.rank()] = agent;
        v1::AgentMessage started;
        started.mutable_rank_started()->set_rank(rank.rank());
        to->agent_message(agent, started);
      }
      reply.mutable_launched();
      to->agent_message(agent, reply);
    } else if (message.has_signal_ranks()) {
      signals.push_back(message.signal_ranks().signal());
    } else if (message.has_stop_ranks()) {
      for (const auto& [rank, its_agent] : std::map(running)) {
        if (its_agent == agent) end(rank, SIGTERM, true);
      }
    }
  }

  base::Loop& loop_;
  base::Gate gate_;
};

class RestartingJobPoolTest : public ::testing::Test, public JobObserver, public GenerationHosts {
 protected:
  void make(OnFailure on_failure, const std::function<void(model::JobSpec&)>& adjust = {},
            std::shared_ptr<const ResumedGeneration> resumed = {}) {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list("n1:2,n2:2", "-H");
    job.placement.np = 4;
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    job.failure.on_failure = on_failure;
    job.max_restarts = 3;
    if (adjust) adjust(job);
    JobSetup setup{.job = job,
                   .placement = *model::place(job.placement),
                   .options = {.job_id = "abcdefgh", .resumes = resumes_},
                   .environment = base::Environment(),
                   .sink = &sink_,
                   .observer = this,
                   .hosts = this,
                   .resumed_generation = std::move(resumed)};
    job_ = std::make_unique<RestartingJob>(loop_, clock_, std::move(setup), [this](int) {
      agents_ = std::make_shared<PooledFakes>(loop_);
      return agents_;
    });
    ASSERT_TRUE(job_->start().ok());
  }
  void run_job(OnFailure on_failure, const std::function<void(model::JobSpec&)>& adjust = {}) {
    make(on_failure, adjust);
    await_runs(1);
  }
  void await_runs(int count) {
    turn_until([this, count] { return runs_ >= count; });
  }
  void turn_until(const std::function<bool()>& is_done) { testing_support::turn_until(loop_, is_done); }
  const JobOutcome& outcome() {
    turn_until([this] { return outcome_.has_value(); });
    return outcome_ ? *outcome_ : outcome_.emplace();
  }

  std::vector<model::HostSpec> offers(Availability when) override {
    return when == Availability::kNow ? free_ : at_best_;
  }
  void change(const GenerationChange& change) override {
    changes_.push_back(change);
    EXPECT_FALSE(job_->resizes_to()) << "the next launcherd must not resize the new generation again";
  }
  void when_stored(Stored done) override {
    const base::Loop::Task task = [this, done = std::move(done)] { done(store_status_); };
    if (!stores_) return unstored_.push_back(task);
    loop_.post(task);
  }
  void wait(const GenerationWait& wait, const std::string& why) override {
    waits_.push_back(wait);
    why_ = why;
  }
  void runs_again(base::Duration) override { ++timed_; }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override { ++runs_; }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const began = std::get_if<model::GenerationBegan>(&event)) begun_.push_back(*began);
    if (const auto* const first = std::get_if<model::FirstCollectiveEnded>(&event)) collectives_.push_back(*first);
  }

  base::SystemClock clock_;
  base::Loop loop_;
  testing_support::NoOutput sink_;
  std::vector<model::HostSpec> free_;     // what the pool offers now
  std::vector<model::HostSpec> at_best_;  // what it could offer at some time
  bool stores_ = true;
  base::Status store_status_;
  std::vector<base::Loop::Task> unstored_;
  std::vector<GenerationChange> changes_;
  std::vector<GenerationWait> waits_;
  std::string why_;
  std::vector<std::string> warnings_;
  std::vector<model::GenerationBegan> begun_;
  std::vector<model::FirstCollectiveEnded> collectives_;
  int runs_ = 0;
  int timed_ = 0;
  std::shared_ptr<PooledFakes> agents_;
  std::optional<JobOutcome> outcome_;
  bool resumes_ = false;
  std::unique_ptr<RestartingJob> job_;
};

TEST_F(RestartingJobPoolTest, AFreeHostOfThePoolTakesTheLostOnesPlace) {
  run_job(OnFailure::kReplace);
  free_ = {{.name = "n3", .slots = 8}};
  agents_->lose(1);
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n3"));
  ASSERT_EQ(changes_.size(), 1U);
  EXPECT_EQ(changes_[0].number, 1);
  EXPECT_EQ(changes_[0].placement.hosts[1].ranks.size(), 2U) << "no more slots than the job lost";
  ASSERT_EQ(changes_[0].state.failed.size(), 1U);
  EXPECT_EQ(changes_[0].state.failed[0].name, "n2");
  EXPECT_EQ(changes_[0].state.counted, 0);
  EXPECT_THAT(begun_.at(0).lost, ElementsAre("n2"));
  EXPECT_EQ(timed_, 1);
  for (int rank = 0; rank < 4; ++rank) agents_->end(rank, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(RestartingJobPoolTest, TellsTheFirstCollectiveOfALaterGenerationOnce) {
  run_job(OnFailure::kShrink);
  const auto report = [this](int generation) {
    v1::AgentMessage message;
    message.mutable_first_collective()->set_generation(generation);
    agents_->to->agent_message(0, message);
  };
  report(0);
  EXPECT_TRUE(collectives_.empty()) << "nothing failed before the first generation";
  agents_->lose(1);
  await_runs(2);
  report(0);
  EXPECT_TRUE(collectives_.empty()) << "another generation";
  report(1);
  report(1);
  ASSERT_EQ(collectives_.size(), 1U);
  EXPECT_EQ(collectives_[0].generation, 1);
  EXPECT_GE(collectives_[0].elapsed, begun_.at(0).elapsed) << "both count from the failure";
}

TEST_F(RestartingJobPoolTest, NoAgentStartsBeforeTheChangeIsStored) {
  run_job(OnFailure::kShrink);
  stores_ = false;
  agents_->lose(1);
  turn_until([this] { return !unstored_.empty(); });
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2"));
  EXPECT_EQ(changes_.size(), 1U);
  unstored_.front()();
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1"));
  EXPECT_EQ(begun_.at(0).to, 2);
}

TEST_F(RestartingJobPoolTest, AChangeThatCannotBeStoredEndsTheJob) {
  run_job(OnFailure::kShrink);
  store_status_ = base::unavailable("the disk is broken");
  agents_->lose(1);
  EXPECT_EQ(outcome().exit_code, model::kMusterFailed);
  ASSERT_FALSE(outcome().host_failures.empty());
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("could not store that: the disk is broken"));
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2")) << "no agent of another generation";
  EXPECT_EQ(runs_, 1);
}

TEST_F(RestartingJobPoolTest, AResizeThatCannotBeStoredLeavesTheRanksAlone) {
  run_job(OnFailure::kShrink);
  store_status_ = base::unavailable("the disk is broken");
  ASSERT_TRUE(job_->resize(3, {}).ok());
  turn_until([this] { return !job_->resizes_to(); });
  EXPECT_THAT(warnings_, ElementsAre(HasSubstr("the job keeps its 4 ranks")));
  EXPECT_EQ(agents_->running.size(), 4U);
  store_status_ = base::ok_status();
  ASSERT_TRUE(job_->resize(3, {}).ok());
  await_runs(2);
  EXPECT_EQ(agents_->running.size(), 3U);
}

TEST_F(RestartingJobPoolTest, AJobThatIsKilledBeforeTheChangeIsStoredStartsNothing) {
  run_job(OnFailure::kShrink);
  stores_ = false;
  agents_->lose(1);
  turn_until([this] { return !unstored_.empty(); });
  job_->stop(StopCause::kTerminate);
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->cause, StopCause::kTerminate);
  EXPECT_EQ(outcome_->exit_code, model::kTerminated);
  unstored_.front()();
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2"));
  EXPECT_EQ(runs_, 1);
}

TEST_F(RestartingJobPoolTest, ReplaceWaitsForAHostThatCanBecomeFree) {
  run_job(OnFailure::kReplace);
  at_best_ = {{.name = "n3", .slots = 2}};
  agents_->lose(1);
  turn_until([this] { return job_->waits_for_hosts(); });
  EXPECT_THAT(why_, HasSubstr("n2 failed and no free host is left"));
  EXPECT_THAT(waits_.at(0).end.bad_hosts, ElementsAre("n2"));
  job_->hosts_changed();
  EXPECT_EQ(waits_.size(), 1U) << "the same reason is reported once";
  free_ = at_best_;
  job_->hosts_changed();
  EXPECT_FALSE(job_->waits_for_hosts());
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n3"));
}

TEST_F(RestartingJobPoolTest, AJobWaitsForTheCooldownOfItsFailedHost) {
  run_job(OnFailure::kReplace, [](model::JobSpec& job) { job.failure.failed_host_cooldown = 1s; });
  free_ = {{.name = "n2", .slots = 2}};
  agents_->lose(1);
  turn_until([this] { return job_->waits_for_hosts(); });
  ASSERT_EQ(waits_.at(0).failed.size(), 1U);
  EXPECT_EQ(waits_[0].failed[0].name, "n2");
  EXPECT_FALSE(waits_[0].failed[0].reason.empty());
  EXPECT_TRUE(waits_[0].failed[0].usable_from.has_value());
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2"));
  EXPECT_THAT(changes_.at(0).state.failed, ::testing::IsEmpty()) << "it is in the job again";
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_FALSE(begun_[0].reason.empty());
}

TEST_F(RestartingJobPoolTest, AnAgentsReportOfProgressIsGoodForOneGeneration) {
  run_job(OnFailure::kRestart);
  agents_->to->agent_message(1, [] {
    v1::AgentMessage message;
    message.mutable_progress();
    return message;
  }());
  for (int rank = 3; rank >= 0; --rank) agents_->end(rank, 3 << 8);
  await_runs(2);
  EXPECT_EQ(changes_.at(0).state.counted, 0);
  for (int rank = 3; rank >= 0; --rank) agents_->end(rank, 3 << 8);
  await_runs(3);
  EXPECT_EQ(changes_.at(1).state.counted, 1);
}

TEST_F(RestartingJobPoolTest, ReplaceEndsIfNoHostCanEverBecomeFree) {
  run_job(OnFailure::kReplace);
  agents_->lose(1);
  EXPECT_EQ(outcome().cause, StopCause::kHostFailed);
  EXPECT_TRUE(waits_.empty());
  EXPECT_THAT(warnings_, testing::Contains(HasSubstr("the job does not start again: n2 failed and no free host")));
}

TEST_F(RestartingJobPoolTest, AWaitOfAnEarlierLauncherdGoesOn) {
  auto resumed = std::make_shared<ResumedGeneration>();
  resumed->state = {.counted = 1, .wanted = 4};
  resumed->wait = GenerationWait{.end = {.bad_hosts = {"n2"}}, .reason = "its agent ended"};
  at_best_ = {{.name = "n3", .slots = 2}};
  make(OnFailure::kReplace, {}, resumed);
  turn_until([this] { return !waits_.empty(); });
  EXPECT_EQ(runs_, 0) << "no rank of the old generation is left";
  free_ = at_best_;
  job_->hosts_changed();
  await_runs(1);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n3"));
  EXPECT_EQ(changes_.at(0).state.counted, 1);
}

TEST_F(RestartingJobPoolTest, ResizeHasToWaitForTheAgentsOfAnEarlierLauncherd) {
  resumes_ = true;
  make(OnFailure::kShrink);
  const base::Status status = job_->resize(3, {});
  EXPECT_EQ(status.code(), Code::kAborted);  // kUnavailable: no launcherd answers
  EXPECT_EQ(status.message(), "its agents are connecting to this launcherd: try again in a moment");
}

TEST_F(RestartingJobPoolTest, ResizeStopsTheRanksAndStartsMoreOrFewer) {
  run_job(OnFailure::kShrink);
  free_ = {{.name = "n2", .slots = 1}, {.name = "n3", .slots = 4}};
  ASSERT_TRUE(job_->resize(7, {}).ok());
  EXPECT_EQ(job_->resizes_to(), 7);
  EXPECT_TRUE(job_->resize(7, {}).ok()) << "a repeated call changes nothing";
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2", "n3"));
  EXPECT_EQ(begun_.at(0).from, 4);
  EXPECT_EQ(begun_.at(0).to, 7);
  EXPECT_EQ(begun_.at(0).reason, "resized");
  EXPECT_EQ(changes_.at(0).state.counted, 0) << "a resize is no restart";
  EXPECT_FALSE(job_->resizes_to().has_value());
  free_.clear();
  ASSERT_TRUE(job_->resize(3, {}).ok());
  await_runs(3);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2"));
  EXPECT_EQ(agents_->running.size(), 3U);
  for (int rank = 0; rank < 3; ++rank) agents_->end(rank, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(RestartingJobPoolTest, AResizeSaysWhyItCame) {
  run_job(OnFailure::kShrink);
  ASSERT_TRUE(job_->resize(3, {}, {ResizeCause::kPreemption, "preemption: gives 1 slot back"}).ok());
  EXPECT_EQ(job_->resize_reason().cause, ResizeCause::kPreemption);
  EXPECT_THAT(warnings_, ElementsAre("generation 0: preemption: gives 1 slot back"));
  await_runs(2);
  EXPECT_EQ(begun_.at(0).reason, "preemption: gives 1 slot back");
  ASSERT_TRUE(job_->resize(2, {}).ok());
  await_runs(3);
  EXPECT_EQ(begun_.at(1).reason, "resized");
}

TEST_F(RestartingJobPoolTest, AnInterruptedResizeKeepsItsReason) {
  auto resumed = std::make_shared<ResumedGeneration>();
  resumed->state.wanted = 4;
  resumed->resize_to = 2;
  resumed->resize_reason = {ResizeCause::kPreemption, "preemption: gives 2 slots back"};
  make(OnFailure::kShrink, {}, resumed);
  EXPECT_EQ(job_->resizes_to(), 2);
  EXPECT_EQ(job_->resize_reason().text, "preemption: gives 2 slots back");
}

TEST_F(RestartingJobPoolTest, AJobGrowsAsFarAsSlotsAreFree) {
  run_job(OnFailure::kReplace);
  EXPECT_EQ(job_->could_grow_to(8), 4) << "nothing is free";
  free_ = {{.name = "n2", .slots = 1}, {.name = "n3", .slots = 2}};
  EXPECT_EQ(job_->could_grow_to(8), 7);
  EXPECT_EQ(job_->could_grow_to(6), 6);
  EXPECT_EQ(job_->could_grow_to(3), 4) << "it never shrinks";
  ASSERT_TRUE(job_->resize(7, {}).ok());
  EXPECT_EQ(job_->could_grow_to(8), 4) << "it changes already";
}

TEST_F(RestartingJobPoolTest, ASignalNeedsNoTimeLimitWhereTheSizeMayChange) {
  const auto with_signal = [](model::JobSpec& job) {
    job.end_signal = model::EndSignal{.signo = SIGUSR1, .ahead = 60s};
  };
  run_job(OnFailure::kShrink, with_signal);
  EXPECT_THAT(warnings_, testing::IsEmpty());
  ASSERT_TRUE(job_->resize(2, {}).ok());
  turn_until([this] { return agents_->signals.size() == 2; });
  EXPECT_THAT(agents_->signals, ElementsAre(SIGUSR1, SIGUSR1));
}

TEST_F(RestartingJobPoolTest, ResizeUsesTheHostsThatItNamesFirst) {
  run_job(OnFailure::kReplace);
  free_ = {{.name = "n3", .slots = 4}, {.name = "n4", .slots = 4}};
  ASSERT_TRUE(job_->resize(6, {{.name = "n4", .slots = 2}}).ok());
  await_runs(2);
  EXPECT_THAT(agents_->names, ElementsAre("n1", "n2", "n4"));
}

TEST_F(RestartingJobPoolTest, ResizeGivesTheSignalAndItsTimeFirst) {
  run_job(OnFailure::kShrink, [](model::JobSpec& job) {
    job.end_signal = model::EndSignal{.signo = SIGUSR1, .ahead = 60s};
    job.timeout = 3600s;
  });
  ASSERT_TRUE(job_->resize(2, {}).ok());
  turn_until([this] { return agents_->signals.size() == 2; });
  EXPECT_THAT(agents_->signals, ElementsAre(SIGUSR1, SIGUSR1));
  EXPECT_EQ(agents_->running.size(), 4U) << "the ranks have their time";
  for (int rank = 0; rank < 4; ++rank) agents_->end(rank, 0);  // they have saved their state
  await_runs(2);
  EXPECT_EQ(agents_->running.size(), 2U);
}

TEST_F(RestartingJobPoolTest, ResizeRefusesSizesThatCannotBe) {
  run_job(OnFailure::kShrink, [](model::JobSpec& job) {
    job.failure.min_ranks = 2;
    job.failure.max_ranks = 6;
  });
  EXPECT_EQ(job_->resize(1, {}).code(), Code::kOutOfRange);
  EXPECT_EQ(job_->resize(7, {}).code(), Code::kOutOfRange);
  free_ = {{.name = "n3", .slots = 1}};
  const base::Status few = job_->resize(6, {});
  EXPECT_EQ(few.code(), Code::kResourceExhausted);
  EXPECT_THAT(few.message(), HasSubstr("2 more slots are needed, but only 1 are free"));
  EXPECT_TRUE(job_->resize(4, {}).ok()) << "it has this size";
  EXPECT_FALSE(job_->resizes_to().has_value());
}

TEST_F(RestartingJobPoolTest, AJobOfFixedSizeIsNotResized) {
  run_job(OnFailure::kRestart);
  const base::Status fixed = job_->resize(2, {});
  EXPECT_EQ(fixed.code(), Code::kFailedPrecondition);
  EXPECT_THAT(fixed.message(), HasSubstr("--on-failure shrink"));
}

TEST_F(RestartingJobPoolTest, AKillDuringAResizeEndsTheJob) {
  run_job(OnFailure::kShrink);
  ASSERT_TRUE(job_->resize(2, {}).ok());
  job_->stop(StopCause::kTerminate);
  EXPECT_EQ(outcome().cause, StopCause::kTerminate);
  EXPECT_EQ(outcome().exit_code, model::kTerminated);
  EXPECT_EQ(runs_, 1);
}

TEST(ResizedEnd, NeedsAnEndThatAResizeCanExplain) {
  JobOutcome outcome;
  outcome.cause = StopCause::kResize;
  EXPECT_TRUE(resized_end(outcome)->is_resize);
  outcome.cause = StopCause::kTimeout;
  EXPECT_FALSE(resized_end(outcome).has_value());
  outcome.cause = StopCause::kNone;
  model::RankEnd& rank = outcome.ends.emplace_back();
  rank.exit_code = model::kNeverAgain;
  EXPECT_FALSE(resized_end(outcome).has_value());
}

}  // namespace
}  // namespace muster::launcherd::restarting_job_pool_test
