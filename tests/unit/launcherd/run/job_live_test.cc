// A job whose ranks change, with fake agents: the core, LiveJob and the driver together.
#include <signal.h>

#include <functional>
#include <map>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/agents/job_agents.h"
#include "launcherd/run/job_runner.h"
#include "tests/unit/launcherd/run/no_output.h"

namespace muster::launcherd::job_live_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class LiveAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost>, OutputSink*, AgentListener* listener) override {
    to = listener;
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override {
    if (on_send) on_send(agent, message);
    sent[agent].push_back(std::move(message));
  }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int) override {}
  void drop(int agent) override { dropped.insert(agent); }
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override {
    sweeps[agent] = std::move(done);
  }

  int count(int agent, v1::LauncherMessage::BodyCase body) const {
    const auto found = sent.find(agent);
    if (found == sent.end()) return 0;
    return static_cast<int>(std::ranges::count(found->second, body, &v1::LauncherMessage::body_case));
  }

  AgentListener* to = nullptr;
  std::map<int, std::vector<v1::LauncherMessage>> sent;
  std::set<int> dropped;
  std::map<int, std::function<void(base::Result<CommandResult>)>> sweeps;
  std::function<void(int agent, const v1::LauncherMessage& message)> on_send;
};

class JobLiveTest : public ::testing::Test, public JobObserver {
 protected:
  // Hosts of two ranks each, with numbers 2 * agent and 2 * agent + 1.
  void run_job(int hosts, model::ElasticSpec live = {.min_ranks = 2}) {
    hosts_ = hosts;
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list(fmt::format("n[1-{}]:2", hosts), "-H");
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    job.live = live;
    const auto placement = model::place(job.placement);
    ASSERT_TRUE(placement.ok()) << placement.status();
    agents_->on_send = [this](int agent, const v1::LauncherMessage& message) { answer(agent, message); };
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, *placement, {.job_id = "abcdefgh"}, base::Environment(), &sink_, this}, agents_);
    ASSERT_TRUE(runner_->start().ok());
    for (int agent = 0; agent < hosts; ++agent) come_up(agent);
    turn_until([&] { return agents_->count(hosts - 1, v1::LauncherMessage::kLaunch) == 1; });
    for (int number = 0; number < 2 * hosts; ++number) {
      running_.insert(number);
      v1::AgentMessage started;
      started.mutable_rank_started()->set_rank(number);
      agents_->to->agent_message(number / 2, started);
    }
    for (int agent = 0; agent < hosts; ++agent) {
      v1::AgentMessage launched;
      launched.mutable_launched();
      agents_->to->agent_message(agent, launched);
    }
  }
  void come_up(int agent) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(fmt::format("n{}", agent + 1));
    for (int cpu = 0; cpu < 2; ++cpu) up.hello.add_cores()->add_cpus(cpu);
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.0.{}", agent + 1));
    agents_->to->agent_started(agent);
    agents_->to->agent_up(agent, std::move(up));
  }
  // Plays the agents. Each answer comes in a later turn of the loop.
  void answer(int agent, const v1::LauncherMessage& message) {
    if (agents_->dropped.contains(agent) || silent_.contains(agent)) return;
    loop_.post([this, agent, message] {
      if (silent_.contains(agent)) return;
      v1::AgentMessage reply;
      if (message.has_prepare()) {
        reply.mutable_prepared()->set_interface("eth0");
        reply.mutable_prepared()->set_address(fmt::format("10.0.0.{}", agent + 1));
        agents_->to->agent_message(agent, reply);
      } else if (message.has_prepare_generation() && opens_stores_) {
        reply.mutable_generation_prepared()->set_generation(message.prepare_generation().generation());
        reply.mutable_generation_prepared()->set_horovod_port(4000 + agent);
        agents_->to->agent_message(agent, reply);
      } else if (message.has_end_ranks()) {
        for (const int number : message.end_ranks().ranks()) end(number, SIGTERM);
      } else if (message.has_stop_ranks()) {
        for (const int number : {2 * agent, 2 * agent + 1}) end(number, SIGTERM, true);
      }
    });
  }
  void end(int number, int wait_status, bool is_ours = false) {
    if (running_.erase(number) == 0) return;
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(number);
    exited.mutable_rank_exited()->set_wait_status(wait_status);
    exited.mutable_rank_exited()->set_stopped_by_us(is_ours);
    const int agent = number / 2;
    agents_->to->agent_message(agent, exited);
    if (running_.contains(2 * agent) || running_.contains(2 * agent + 1)) return;
    v1::AgentMessage empty;
    empty.mutable_host_empty()->set_no_output(true);
    agents_->to->agent_message(agent, empty);
  }
  void check_in(std::initializer_list<int> numbers) {
    for (const int number : numbers) {
      v1::AgentMessage message;
      message.mutable_check_in()->set_number(number);
      agents_->to->agent_message(number / 2, message);
    }
  }
  void lose_agent(int agent) {
    silent_.insert(agent);
    for (const int number : {2 * agent, 2 * agent + 1}) running_.erase(number);
    agents_->to->agent_gone(agent, base::error(base::Code::kUnavailable, "killed"));
    agents_->sweeps.at(agent)(CommandResult{0, "", ""});
  }
  void await_generations(std::size_t count) {
    turn_until([this, count] { return begun_.size() >= count; });
  }
  void turn_until(std::function<bool()> is_done) {
    const base::Timer looking = loop_.every(5ms, [&] {
      if (is_done()) loop_.stop();
    });
    const base::Timer deadline = loop_.after(20s, [this] {
      ADD_FAILURE() << "the test's deadline passed";
      loop_.stop();
    });
    loop_.run();
  }
  const JobOutcome& outcome() {
    turn_until([this] { return outcome_.has_value(); });
    return outcome_ ? *outcome_ : outcome_.emplace();
  }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override { ++on_running_; }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd& root) override { root_ = root; }
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const began = std::get_if<model::GenerationBegan>(&event)) begun_.push_back(*began);
    if (const auto* const end = std::get_if<model::RankEnd>(&event)) ends_.push_back(*end);
  }

  base::SystemClock clock_;
  base::Loop loop_;
  testing_support::NoOutput sink_;
  std::shared_ptr<LiveAgents> agents_ = std::make_shared<LiveAgents>();
  std::unique_ptr<JobRunner> runner_;
  int hosts_ = 0;
  bool opens_stores_ = true;
  std::set<int> running_;
  std::set<int> silent_;
  int on_running_ = 0;
  std::vector<std::string> warnings_;
  std::vector<model::GenerationBegan> begun_;
  std::vector<model::RankEnd> ends_;
  std::optional<model::RankEnd> root_;
  std::optional<JobOutcome> outcome_;
};

TEST_F(JobLiveTest, EndsWellWithoutAnyChange) {
  run_job(2);
  EXPECT_EQ(on_running_, 1);
  const v1::Launch& launch =
      std::ranges::find(agents_->sent[1], v1::LauncherMessage::kLaunch, &v1::LauncherMessage::body_case)->launch();
  ASSERT_EQ(launch.live_members_size(), 2);
  EXPECT_EQ(launch.live_members(1).number(), 3);
  EXPECT_EQ(launch.live_members(1).local_rank(), 1);
  const auto has = [&](const std::string& name, const std::string& value) {
    return std::ranges::any_of(launch.ranks(0).environment(),
                               [&](const v1::EnvVar& each) { return each.name() == name && each.value() == value; });
  };
  EXPECT_TRUE(has("HOROVOD_ELASTIC", "1"));
  EXPECT_TRUE(has("MUSTER_GENERATION", "0"));
  for (const int number : {0, 1, 2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(begun_.empty());
  EXPECT_TRUE(warnings_.empty());
  EXPECT_EQ(outcome().ends.size(), 4U);
}

TEST_F(JobLiveTest, GoesOnWithoutTheHostOfAKilledRank) {
  run_job(2);
  end(3, SIGKILL);
  EXPECT_FALSE(outcome_.has_value());
  check_in({0, 1, 2});
  await_generations(1);
  EXPECT_EQ(begun_[0].number, 1);
  EXPECT_THAT(begun_[0].reason, HasSubstr("rank 3: "));
  EXPECT_EQ(begun_[0].from, 4);
  EXPECT_EQ(begun_[0].to, 2);
  EXPECT_EQ(begun_[0].lost, std::vector<std::string>{"n2"});
  EXPECT_EQ(begun_[0].former, (std::vector<int>{0, 1}));
  ASSERT_EQ(begun_[0].placement.hosts.size(), 1U);
  EXPECT_EQ(begun_[0].placement.hosts[0].host.name, "n1");
  EXPECT_EQ(agents_->count(0, v1::LauncherMessage::kBeginGeneration), 1);
  turn_until([this] { return !running_.contains(2); });  // ended, because its host is black-listed
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(outcome().root, -1);
  EXPECT_EQ(outcome().ranks, 2);
  EXPECT_EQ(outcome().hosts, 1);
}

TEST_F(JobLiveTest, GoesOnWhenAllRanksOfAHostAreKilled) {
  run_job(2);
  end(2, SIGKILL);
  end(3, SIGKILL);
  check_in({0, 1});
  await_generations(1);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, GoesOnWhenAnAgentIsKilled) {
  run_job(2);
  lose_agent(1);
  EXPECT_EQ(agents_->count(0, v1::LauncherMessage::kStopRanks), 0);
  check_in({0, 1});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  ASSERT_FALSE(warnings_.empty());
  EXPECT_THAT(warnings_[0], HasSubstr("n2: the agent there ended"));
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(outcome().host_failures.empty());
  EXPECT_TRUE(outcome().unclean.empty());
}

TEST_F(JobLiveTest, RanksAreNumberedAnewWhenRankZerosHostIsLost) {
  run_job(3);
  lose_agent(0);
  EXPECT_EQ(agents_->count(1, v1::LauncherMessage::kStoreLost), 1);
  EXPECT_EQ(agents_->count(2, v1::LauncherMessage::kStoreLost), 1);
  check_in({2, 3, 4, 5});
  await_generations(1);
  EXPECT_EQ(begun_[0].former, (std::vector<int>{2, 3, 4, 5}));
  const v1::BeginGeneration& begin = agents_->sent[2].back().begin_generation();
  EXPECT_EQ(begin.horovod_address(), "10.0.0.2");
  EXPECT_EQ(begin.horovod_port(), 4001);
  ends_.clear();
  for (const int number : {2, 3, 4}) end(number, 0);
  end(5, 7 << 8);
  EXPECT_EQ(outcome().exit_code, 7);
  ASSERT_TRUE(root_.has_value());
  EXPECT_EQ(root_->rank, 3) << "its rank in the last generation";
  EXPECT_EQ(root_->host, "n3");
  ASSERT_EQ(ends_.size(), 4U);
  EXPECT_EQ(ends_[0].rank, 0);
}

TEST_F(JobLiveTest, TwoFailuresAtOnceLeadToOneGeneration) {
  run_job(3);
  lose_agent(2);
  end(3, SIGKILL);
  check_in({0, 1, 2});
  await_generations(1);
  EXPECT_EQ(begun_[0].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(begun_.size(), 1U);
}

TEST_F(JobLiveTest, AFailureWhileTheStoreOpensLeadsToAnotherPlan) {
  run_job(3);
  opens_stores_ = false;
  end(5, SIGKILL);
  check_in({0, 1, 2, 3, 4});
  turn_until([this] { return agents_->count(0, v1::LauncherMessage::kPrepareGeneration) == 1; });
  opens_stores_ = true;
  lose_agent(0);
  await_generations(1);
  ASSERT_EQ(begun_.size(), 1U);
  EXPECT_EQ(begun_[0].from, 6);
  EXPECT_EQ(begun_[0].to, 2);
  EXPECT_EQ(begun_[0].lost, (std::vector<std::string>{"n1", "n3"}));
  EXPECT_EQ(begun_[0].former, (std::vector<int>{2, 3}));
  for (const int number : {2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, AFailureInTheNextGenerationLeadsToAnotherOne) {
  run_job(3);
  end(5, SIGKILL);
  check_in({0, 1, 2, 3, 4});
  await_generations(1);
  end(2, SIGKILL);
  check_in({0, 1, 3});
  await_generations(2);
  EXPECT_EQ(begun_[1].number, begun_[0].number + 1);
  EXPECT_EQ(begun_[1].from, 4);
  EXPECT_EQ(begun_[1].to, 2);
  for (const int number : {0, 1}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

TEST_F(JobLiveTest, TheLastHostsFailureEndsTheJob) {
  run_job(2);
  lose_agent(1);
  check_in({0, 1});
  await_generations(1);
  end(0, 3 << 8);
  end(1, 3 << 8);
  EXPECT_EQ(outcome().exit_code, 3);
  EXPECT_EQ(outcome().root, 0);
}

TEST_F(JobLiveTest, EndsIfTooFewRanksAreLeft) {
  run_job(2, {.min_ranks = 3, .elastic_timeout = 0s});
  end(3, SIGKILL);
  check_in({0, 1, 2});
  EXPECT_EQ(outcome().exit_code, 137);
  EXPECT_TRUE(running_.empty());
  EXPECT_TRUE(begun_.empty());
}

TEST_F(JobLiveTest, AStopEndsAllRanksInEveryPhase) {
  for (const int phase : {0, 1, 2, 3}) {
    agents_ = std::make_shared<LiveAgents>();
    running_.clear();
    begun_.clear();
    outcome_.reset();
    opens_stores_ = phase != 2;
    run_job(2);
    if (phase >= 1) end(3, SIGKILL);  // the job waits for the others
    if (phase >= 2) check_in({0, 1, 2});
    if (phase == 2) turn_until([&] { return agents_->count(0, v1::LauncherMessage::kPrepareGeneration) > 0; });
    if (phase == 3) await_generations(1);
    runner_->stop(StopCause::kInterrupt);
    EXPECT_EQ(outcome().exit_code, 130) << phase;
    EXPECT_TRUE(running_.empty()) << phase;
    EXPECT_EQ(begun_.size(), phase == 3 ? 1U : 0U) << phase;
  }
}

TEST_F(JobLiveTest, AHostThatLiesAboutProcessesIsIgnored) {
  run_job(2);
  v1::AgentMessage message;
  message.mutable_check_in()->set_number(0);
  agents_->to->agent_message(1, message);
  message.mutable_first_put()->set_number(1 << 20);
  agents_->to->agent_message(1, message);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_THAT(warnings_[0], HasSubstr("n2: its agent reports on rank 0"));
  for (const int number : {0, 1, 2, 3}) end(number, 0);
  EXPECT_EQ(outcome().exit_code, 0);
}

}  // namespace
}  // namespace muster::launcherd::job_live_test
