// A job with fake agents: they send at once what a test makes them send.
#include "launcherd/run/job_runner.h"

#include <signal.h>

#include <limits>
#include <map>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/run/job_core.h"
#include "launcherd/run/restarting_job.h"
#include "model/job_placement.h"
#include "tests/unit/launcherd/run/no_output.h"
#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::job_runner_test {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

class FakeAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost> hosts, OutputSink*, AgentListener* listener) override {
    names = std::move(hosts);
    to = listener;
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override {
    if (message.has_launch()) launches[agent] = message.launch();
    if (message.has_stop_ranks()) {
      ++stops;
      stopped.push_back(agent);
    }
    if (message.has_signal_ranks()) signals.push_back(message.signal_ranks().signal());
    if (message.signal_ranks().once()) ++once;
    if (message.has_prepare() && on_prepare) on_prepare(agent);
  }
  void send_unnumbered(int agent, v1::LauncherMessage message) override {
    if (message.has_ping()) pings[agent] = message.ping().launcher_ns();
  }
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int agent) override { ended.insert(agent); }
  void leave(int agent) override { left.insert(agent); }
  void drop(int agent) override { dropped.insert(agent); }
  // The test answers it.
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override {
    EXPECT_TRUE(may_sweep) << "nothing is swept";
    sweeps[agent] = std::move(done);
  }

  std::vector<AgentHost> names;
  AgentListener* to = nullptr;
  std::map<int, v1::Launch> launches;
  std::map<int, std::int64_t> pings;  // the last one
  int stops = 0;
  std::vector<int> stopped;
  std::vector<int> signals;
  int once = 0;  // of them
  std::set<int> ended;
  std::set<int> left;
  std::set<int> dropped;
  bool may_sweep = false;
  std::map<int, std::function<void(base::Result<CommandResult>)>> sweeps;
  std::function<void(int agent)> on_prepare;
};

class JobRunnerTest : public ::testing::Test, public JobObserver {
 protected:
  // On n1, n2 …, a rank each; all are running afterwards.
  void run_job(int hosts) {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list(hosts == 1 ? "n1:1" : fmt::format("n[1-{}]:1", hosts), "-H");
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    const auto placement = model::place(job.placement);
    ASSERT_TRUE(placement.ok()) << placement.status();
    agents_->on_prepare = [this](int agent) { loop_.post([this, agent] { prepared(agent); }); };
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, *placement, options_, base::Environment(), &sink_, this}, agents_);
    ASSERT_TRUE(runner_->start().ok());
    for (int agent = 0; agent < hosts; ++agent) {
      AgentUp up;
      up.link = "dial";
      up.hello.set_hostname(fmt::format("n{}", agent + 1));
      up.hello.add_cores()->add_cpus(0);
      v1::NetworkInterface& network = *up.hello.add_interfaces();
      network.set_name("eth0");
      network.set_address(fmt::format("10.0.0.{}", agent + 1));
      agents_->to->agent_started(agent);
      agents_->to->agent_up(agent, std::move(up));
    }
    turn_until([&] { return agents_->launches.size() == static_cast<std::size_t>(hosts); });
    for (int agent = 0; agent < hosts; ++agent) {
      v1::AgentMessage started;
      started.mutable_rank_started()->set_rank(agent);
      agents_->to->agent_message(agent, started);
      v1::AgentMessage launched;
      launched.mutable_launched();
      agents_->to->agent_message(agent, launched);
    }
  }
  void prepared(int agent) {
    v1::AgentMessage message;
    message.mutable_prepared()->set_interface("eth0");
    message.mutable_prepared()->set_address(fmt::format("10.0.0.{}", agent + 1));
    message.mutable_prepared()->set_master_port(4242);
    agents_->to->agent_message(agent, message);
  }
  // The rank was ended by a stop, and all is gone but its output.
  void empty(int agent) { empty(agent, SIGKILL, true); }
  void empty(int agent, int wait_status, bool stopped_by_us = false) {
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(agent);
    exited.mutable_rank_exited()->set_wait_status(wait_status);
    exited.mutable_rank_exited()->set_stopped_by_us(stopped_by_us);
    agents_->to->agent_message(agent, exited);
    v1::AgentMessage message;
    message.mutable_host_empty();
    agents_->to->agent_message(agent, message);
  }
  void turn_until(const std::function<bool()>& is_done) { testing_support::turn_until(loop_, is_done); }
  const JobOutcome& outcome() {
    turn_until([this] { return outcome_.has_value(); });
    return outcome_ ? *outcome_ : outcome_.emplace();
  }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override {}
  void on_note(const std::string& line) override { notes_.push_back(line); }
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }

  LaunchOptions options_{.job_id = "abcdefgh"};
  base::SystemClock clock_;
  base::Loop loop_;
  testing_support::NoOutput sink_;
  std::shared_ptr<FakeAgents> agents_ = std::make_shared<FakeAgents>();
  std::unique_ptr<JobRunner> runner_;
  std::optional<JobOutcome> outcome_;
  std::vector<std::string> warnings_;
  std::vector<std::string> notes_;
};

TEST_F(JobRunnerTest, UnreadableMessagesOfAHostEndTheJobWithAReason) {
  run_job(2);
  agents_->to->agent_unreadable(1);
  EXPECT_EQ(agents_->dropped, std::set<int>{1});
  EXPECT_EQ(agents_->stops, 1);  // of the other host's rank
  empty(0);
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 125);
  ASSERT_EQ(outcome().host_failures.size(), 1u);
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("n2: a message on the control connection"));
  ASSERT_EQ(outcome().unclean.size(), 1u);
  EXPECT_THAT(outcome().unclean.front().message, HasSubstr("n2: its agent was sent the order to end the ranks"));
}

// Its ranks have ended well, and it is killed before all that they wrote was sent.
TEST_F(JobRunnerTest, AnAgentThatEndsBeforeTheOutputOfItsRanksEndsTheJobWithWords) {
  run_job(2);
  for (const int agent : {0, 1}) empty(agent, 0);
  agents_->to->output_complete(0);
  agents_->to->agent_gone(1, base::error(base::Code::kUnavailable, "killed"));
  EXPECT_EQ(agents_->ended, std::set<int>{1});  // what it has sent is still to be read
  EXPECT_FALSE(outcome_.has_value());
  agents_->to->output_cut(1);
  EXPECT_EQ(agents_->dropped, std::set<int>{1});
  EXPECT_EQ(outcome().exit_code, 125);
  ASSERT_EQ(outcome().host_failures.size(), 1u);
  EXPECT_THAT(outcome().host_failures.front().message,
              HasSubstr("n2: the agent there ended before it had sent all output of the ranks there"));
  EXPECT_TRUE(outcome().unclean.empty());
}

TEST_F(JobRunnerTest, CountsStraysOfEachSweptHostAndListsTwentyAtMost) {
  run_job(2);
  agents_->may_sweep = true;
  for (const int agent : {0, 1}) agents_->to->agent_gone(agent, base::error(base::Code::kUnavailable, "killed"));
  ASSERT_EQ(agents_->sweeps.size(), 2u);
  std::string killed;
  for (int pid = 100; pid < 115; ++pid) killed += fmt::format("pid {} (sleep)\n", pid);
  for (const auto& [agent, done] : agents_->sweeps) done(CommandResult{0, killed, ""});
  EXPECT_EQ(outcome().strays_killed, 30);
  EXPECT_EQ(outcome().stray_lines.size(), 20u);
  EXPECT_THAT(notes_, IsSupersetOf({"n1: searched for leftover processes, 15 killed",
                                    "n2: searched for leftover processes, 15 killed"}));
}

TEST_F(JobRunnerTest, AnAgentThatHasSentAllMayEnd) {
  run_job(1);
  empty(0, 0);
  agents_->to->agent_gone(0, base::error(base::Code::kUnavailable, "killed"));
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(outcome().host_failures.empty());
}

// The failed rank stays the root cause. Missing lines are reported beside it.
TEST_F(JobRunnerTest, ARanksFailureStaysTheCauseWhenItsOutputIsCut) {
  run_job(1);
  empty(0, 7 << 8);
  agents_->to->agent_gone(0, base::error(base::Code::kUnavailable, "killed"));
  agents_->to->output_cut(0);
  EXPECT_EQ(outcome().exit_code, 7);
  EXPECT_EQ(outcome().host_failures.size(), 1u);
}

TEST_F(JobRunnerTest, ReportsOutputThatCannotBeRead) {
  run_job(1);
  empty(0, 0);
  agents_->to->agent_unreadable(0);
  EXPECT_EQ(agents_->dropped, std::set<int>{0});
  EXPECT_EQ(outcome().exit_code, 125);
  EXPECT_EQ(outcome().host_failures.size(), 1u);
}

// A host that lies about another one's ranks.
TEST_F(JobRunnerTest, AHostReportsOnItsOwnRanksAlone) {
  run_job(2);
  empty(0, 0);
  v1::AgentMessage exited;
  exited.mutable_rank_exited()->set_rank(1);
  agents_->to->agent_message(0, exited);
  v1::AgentMessage tail;
  tail.mutable_rank_stderr_tail()->set_rank(1 << 20);
  tail.mutable_rank_stderr_tail()->set_text("of nobody");
  agents_->to->agent_message(0, tail);
  EXPECT_EQ(warnings_, std::vector<std::string>{"n1: its agent reports on rank 1, which does not run there: ignored"});
  empty(1, 7 << 8);
  for (const int agent : {0, 1}) agents_->to->output_complete(agent);
  EXPECT_EQ(outcome().exit_code, 7);
}

// Several ranks a host.
class GroupedRanksTest : public JobRunnerTest {
 protected:
  // On n1 and n2, four ranks each; none of them has started.
  void launch_job() {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list("n[1-2]:4", "-H");
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    agents_->on_prepare = [this](int agent) { loop_.post([this, agent] { prepared(agent); }); };
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, *model::place(job.placement), options_, base::Environment(), &sink_, this},
        agents_);
    ASSERT_TRUE(runner_->start().ok());
    for (const int agent : {0, 1}) {
      agents_->to->agent_started(agent);
      agents_->to->agent_up(agent, up_of(agent));
    }
    turn_until([&] { return agents_->launches.size() == 2; });
  }
  static AgentUp up_of(int agent) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(fmt::format("n{}", agent + 1));
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.0.{}", agent + 1));
    return up;
  }
  static v1::AgentMessage started(const std::vector<int>& ranks) {
    v1::AgentMessage message;
    for (const int rank : ranks) {
      message.mutable_ranks_started()->add_ranks(rank);
      message.mutable_ranks_started()->add_pids(100 + rank);
    }
    return message;
  }
  static v1::AgentMessage exited(const std::vector<int>& ranks) {
    v1::AgentMessage message;
    for (const int rank : ranks) {
      message.mutable_ranks_exited()->add_ranks(rank);
      message.mutable_ranks_exited()->add_pids(100 + rank);
    }
    return message;
  }
  static v1::AgentMessage exited(int rank, int wait_status, bool stopped_by_us = false) {
    v1::AgentMessage message;
    message.mutable_rank_exited()->set_rank(rank);
    message.mutable_rank_exited()->set_pid(100 + rank);
    message.mutable_rank_exited()->set_wait_status(wait_status);
    message.mutable_rank_exited()->set_stopped_by_us(stopped_by_us);
    return message;
  }
  void send(int agent, const v1::AgentMessage& message) { agents_->to->agent_message(agent, message); }
  void tried(int agent) {
    v1::AgentMessage message;
    message.mutable_launched();
    send(agent, message);
  }
  void gone(int agent) {
    v1::AgentMessage message;
    message.mutable_host_empty()->set_no_output(true);
    send(agent, message);
  }
  void on_running() override { events_.emplace_back("running"); }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const up = std::get_if<model::RankUp>(&event)) {
      events_.push_back(fmt::format("up {} {}", up->rank, up->pid));
    } else if (const auto* const end = std::get_if<model::RankEnd>(&event)) {
      events_.push_back(fmt::format("end {} {} {}", end->rank, end->pid, model::describe(*end)));
    } else if (std::holds_alternative<model::JobStopping>(event)) {
      events_.emplace_back("stopping");
    }
  }

  std::vector<std::string> events_;
};

TEST_F(GroupedRanksTest, AGroupIsReportedRankByRank) {
  launch_job();
  send(0, started({0, 1, 2, 3}));
  tried(0);
  send(1, started({4, 5}));
  v1::AgentMessage single;
  single.mutable_rank_started()->set_rank(6);
  single.mutable_rank_started()->set_pid(106);
  send(1, single);
  send(1, started({7}));
  tried(1);
  EXPECT_THAT(events_, ElementsAre("up 0 100", "up 1 101", "up 2 102", "up 3 103", "up 4 104", "up 5 105", "up 6 106",
                                   "up 7 107", "running"));
  events_.clear();
  send(1, exited({4, 6}));
  send(1, exited(5, 0));
  send(1, exited({7}));
  gone(1);
  send(0, exited({3, 2, 1, 0}));
  gone(0);
  EXPECT_EQ(outcome().exit_code, 0);
  ASSERT_EQ(outcome().ends.size(), 8u);
  for (int rank = 0; rank < 8; ++rank) {
    const model::RankEnd& end = outcome().ends[static_cast<std::size_t>(rank)];
    EXPECT_EQ(end.rank, rank);
    EXPECT_EQ(end.pid, 100 + rank);
    EXPECT_EQ(end.host, rank < 4 ? "n1" : "n2");
    EXPECT_FALSE(end.failed());
  }
  EXPECT_THAT(events_, ElementsAre("end 4 104 exit code 0", "end 6 106 exit code 0", "end 5 105 exit code 0",
                                   "end 7 107 exit code 0", "end 3 103 exit code 0", "end 2 102 exit code 0",
                                   "end 1 101 exit code 0", "end 0 100 exit code 0"));
}

// One rank fails, and the others end well while the stop is on its way.
TEST_F(GroupedRanksTest, AGroupInTheMiddleOfAStopCounts) {
  launch_job();
  send(0, started({0, 1, 2, 3}));
  tried(0);
  send(1, started({4, 5, 6, 7}));
  tried(1);
  send(0, exited(1, 3 << 8));
  EXPECT_THAT(events_, Contains("stopping"));
  EXPECT_EQ(agents_->stops, 2);
  send(1, exited({4, 5, 6}));
  send(1, exited(7, SIGTERM, true));
  gone(1);
  send(0, exited({0, 2}));
  send(0, exited(3, SIGTERM, true));
  gone(0);
  EXPECT_EQ(outcome().exit_code, 3);
  EXPECT_EQ(outcome().ends.size(), 8u);
  EXPECT_EQ(outcome().root, 1);
  EXPECT_EQ(outcome().ends[5].kind, model::EndKind::kExited);
  EXPECT_EQ(outcome().ends[7].kind, model::EndKind::kStopped);
}

TEST_F(GroupedRanksTest, AnEndThatIsReportedTwiceCountsOnce) {
  launch_job();
  for (const int agent : {0, 1}) {
    const int first = 4 * agent;
    send(agent, started({first, first + 1, first + 2, first + 3}));
    tried(agent);
  }
  events_.clear();
  send(0, exited({0, 1}));
  send(0, exited({1, 0, 2}));
  send(0, exited(2, 9 << 8));
  EXPECT_THAT(events_, ElementsAre("end 0 100 exit code 0", "end 1 101 exit code 0", "end 2 102 exit code 0"));
}

// A host that lies about another one's ranks, or sends a group without pids.
TEST_F(GroupedRanksTest, AHostReportsInGroupsOnItsOwnRanksAlone) {
  launch_job();
  send(0, started({0, 4, 1}));
  EXPECT_THAT(events_, ElementsAre("up 0 100", "up 1 101"));
  EXPECT_EQ(warnings_, std::vector<std::string>{"n1: its agent reports on rank 4, which does not run there: ignored"});
  v1::AgentMessage bad = started({4, 5});
  bad.mutable_ranks_started()->add_ranks(6);
  send(1, bad);
  EXPECT_EQ(events_.size(), 2u);
  EXPECT_EQ(warnings_.back(), "n2: its agent reports on ranks without their pids: ignored");
}

// launcherd was killed between RanksStarted and RanksExited of n1, and before the starts of n2's ranks arrived.
TEST_F(GroupedRanksTest, TheNextLauncherdGoesOnFromGroups) {
  options_.resumes = true;
  model::JobSpec job;
  job.command = {"./a"};
  job.workdir = "/";
  job.placement.hosts = *model::parse_host_list("n[1-2]:4", "-H");
  job.input.to = model::InputTo::kNone;
  runner_ = std::make_unique<JobRunner>(
      loop_, clock_, JobSetup{job, *model::place(job.placement), options_, base::Environment(), &sink_, this}, agents_);
  ASSERT_TRUE(runner_->start().ok());
  for (const int agent : {0, 1}) {
    AgentUp up = up_of(agent);
    up.has_launched = true;
    v1::Prepared& prepared = *up.history.emplace_back().mutable_prepared();
    prepared.set_interface("eth0");
    prepared.set_address(fmt::format("10.0.0.{}", agent + 1));
    prepared.set_master_port(4242);
    up.history.push_back(started({4 * agent, 4 * agent + 1, 4 * agent + 2, 4 * agent + 3}));
    up.history.emplace_back().mutable_launched();
    if (agent == 1) up.history.push_back(exited({4, 5}));
    agents_->to->agent_stream(agent, true);
    agents_->to->agent_up(agent, std::move(up));
  }
  for (const int agent : {0, 1}) {
    v1::AgentMessage pong;
    pong.mutable_pong()->set_launcher_ns(agents_->pings[agent]);
    pong.mutable_pong()->set_agent_ns(1);
    send(agent, pong);
  }
  EXPECT_THAT(events_, ElementsAre("up 0 100", "up 1 101", "up 2 102", "up 3 103", "up 4 104", "up 5 105", "up 6 106",
                                   "up 7 107", "running", "end 4 104 exit code 0", "end 5 105 exit code 0"));
  send(0, exited({0, 1, 2, 3}));
  gone(0);
  send(1, exited({6, 7}));
  gone(1);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_EQ(outcome().ends.size(), 8u);
  EXPECT_TRUE(agents_->launches.empty());
}

// A clock that is guessed could make any rank the first that failed.
TEST_F(JobRunnerTest, APongThatAnswersNoPingIsIgnored) {
  run_job(1);
  for (const std::int64_t launcher_ns : {std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
    v1::AgentMessage pong;
    pong.mutable_pong()->set_launcher_ns(launcher_ns);
    pong.mutable_pong()->set_agent_ns(std::numeric_limits<std::int64_t>::min());
    agents_->to->agent_message(0, pong);
  }
  v1::AgentMessage exited;
  exited.mutable_rank_exited()->set_rank(0);
  exited.mutable_rank_exited()->set_wait_status(7 << 8);
  exited.mutable_rank_exited()->set_agent_ns(std::numeric_limits<std::int64_t>::min());
  agents_->to->agent_message(0, exited);
  v1::AgentMessage message;
  message.mutable_host_empty();
  agents_->to->agent_message(0, message);
  agents_->to->output_complete(0);
  ASSERT_EQ(outcome().ends.size(), 1U);
  EXPECT_FALSE(outcome().ends.front().at_is_known);
}

// Jobs that launcherd has placed.
class PlacedJobTest : public JobRunnerTest {
 protected:
  // A rank a slot of `list`, whose entries are agents by their order; no host is up.
  void start(const std::string& list, LaunchOptions options) {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.input.to = model::InputTo::kNone;
    job.start_timeout = start_timeout_;
    job.timeout = timeout_;
    model::PlacementRequest request;
    request.hosts = *model::parse_host_list(list, "-H");
    placement_ = *model::place(request);
    options.job_id = "abcdefgh";
    if (!options.shares) {
      options.shares = [this](const std::vector<KnownHost>& hosts, const ShareAnswer& answer) {
        known_ = hosts;
        answer(placement_);
      };
    }
    agents_->on_prepare = [this](int agent) { loop_.post([this, agent] { prepared(agent); }); };
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, placement_, std::move(options), base::Environment(), &sink_, this}, agents_);
    ASSERT_TRUE(runner_->start().ok());
  }
  // Of four cores and GPUs.
  void come_up(int agent, const std::string& hostname, bool has_launched = false,
               std::vector<v1::AgentMessage> history = {}) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(hostname);
    for (int i = 0; i < 4; ++i) {
      up.hello.add_cores()->add_cpus(i);
      v1::Gpu& gpu = *up.hello.add_gpus();
      gpu.set_index(i);
      gpu.set_vendor(v1::GPU_VENDOR_NVIDIA);
      gpu.set_uuid(fmt::format("GPU-{}", i));
    }
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address("10.0.0.1");
    up.has_launched = has_launched;
    up.history = std::move(history);
    agents_->to->agent_started(agent);
    agents_->to->agent_up(agent, std::move(up));
  }
  // The clock of a host is known from then on.
  void answer_ping(int agent) {
    v1::AgentMessage pong;
    pong.mutable_pong()->set_launcher_ns(agents_->pings[agent]);
    agents_->to->agent_message(agent, pong);
  }
  static std::string variable(const v1::LaunchRank& rank, const std::string& name) {
    for (const v1::EnvVar& each : rank.environment()) {
      if (each.name() == name) return each.value();
    }
    return "unset";
  }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { bound_ = ranks; }

  std::chrono::milliseconds start_timeout_{30'000};
  std::optional<std::chrono::milliseconds> timeout_;
  model::Placement placement_;
  std::vector<KnownHost> known_;
  std::vector<model::BoundRank> bound_;
};

TEST_F(PlacedJobTest, TwoNamesOfOneHostAreOneHostForItsRanks) {
  start("n1:2,n2:1,n3:1", {});
  placement_.hosts[0].share = model::HostShare{.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}};
  placement_.hosts[1].share = model::HostShare{.cpus = {0}, .devices = {"GPU-0"}};
  placement_.hosts[2].share = model::HostShare{.cpus = {2}, .devices = {"GPU-2"}};
  come_up(0, "n1");
  come_up(1, "n2");
  come_up(2, "n1");
  turn_until([&] { return agents_->launches.size() == 2 || outcome_; });
  ASSERT_FALSE(outcome_.has_value());
  ASSERT_EQ(agents_->launches.count(0), 1u);
  EXPECT_EQ(agents_->left, std::set<int>{2});
  EXPECT_THAT(warnings_, ::testing::ElementsAre("n1 and n3 are the same host; their slots are added"));
  ASSERT_EQ(known_.size(), 3u);
  EXPECT_EQ(known_[0].kept_as, "");
  EXPECT_EQ(known_[2].kept_as, "n1");
  const v1::Launch& launch = agents_->launches[0];
  ASSERT_EQ(launch.ranks_size(), 3);
  for (int i = 0; i < 3; ++i) {
    const v1::LaunchRank& rank = launch.ranks(i);
    EXPECT_EQ(rank.rank(), std::vector({0, 1, 3})[static_cast<std::size_t>(i)]);
    EXPECT_EQ(variable(rank, "MUSTER_LOCAL_RANK"), std::to_string(i));
    EXPECT_EQ(variable(rank, "MUSTER_LOCAL_SIZE"), "3");
    EXPECT_EQ(variable(rank, "CUDA_VISIBLE_DEVICES"), "GPU-0,GPU-1,GPU-2");
    EXPECT_THAT(rank.cpus(), ::testing::ElementsAre(i));
  }
  EXPECT_EQ(agents_->launches[1].ranks_size(), 1);
  EXPECT_EQ(agents_->launches[1].ranks(0).rank(), 2);
}

// n1 and n2 are the same host, and the launcherd before has stored that.
class MergedJobTest : public PlacedJobTest {
 protected:
  void resume() {
    start("n1:1,n2:1,n3:1", {.job_id = "abcdefgh", .resumes = true, .resumed_first_of = {0, 0, 2}});
    ASSERT_EQ(agents_->names.size(), 3u);
    EXPECT_FALSE(agents_->names[0].is_unused);
    EXPECT_TRUE(agents_->names[1].is_unused);
    come_up(0, "n1", true);
    answer_ping(0);
  }
  void exit_well(int agent, int rank) {
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(rank);
    agents_->to->agent_message(agent, exited);
  }
  void end_host(int agent) {
    v1::AgentMessage message;
    message.mutable_host_empty()->set_no_output(true);
    agents_->to->agent_message(agent, message);
  }
};

TEST_F(MergedJobTest, ResumesWithoutTheAgentOfTheOtherName) {
  resume();
  come_up(2, "n3", true);
  answer_ping(2);
  turn_until([&] { return !bound_.empty() || outcome_; });
  ASSERT_FALSE(outcome_.has_value());
  ASSERT_EQ(known_.size(), 2u);
  EXPECT_EQ(known_[0].name, "n1");
  EXPECT_EQ(known_[1].name, "n3");
  exit_well(0, 0);
  exit_well(0, 1);
  exit_well(2, 1);  // a lie
  exit_well(2, 2);
  end_host(0);
  end_host(2);
  EXPECT_EQ(outcome().exit_code, 0);
  EXPECT_TRUE(outcome().host_failures.empty());
  EXPECT_EQ(warnings_, std::vector<std::string>{"n3: its agent reports on rank 1, which does not run there: ignored"});
}

TEST_F(MergedJobTest, KnowsWhereRanksRunWhenNotAllHostsComeBack) {
  resume();
  agents_->to->agent_gone(2, base::error(base::Code::kUnavailable, "killed"));
  turn_until([&] { return agents_->stops > 0 || outcome_; });
  ASSERT_FALSE(outcome_.has_value());
  EXPECT_THAT(agents_->stopped, ::testing::ElementsAre(0));
  agents_->to->agent_unreadable(0);  // lost with all its ranks
  ASSERT_EQ(outcome().ends.size(), 2u);
  for (const int rank : {0, 1}) {
    EXPECT_EQ(outcome().ends[static_cast<std::size_t>(rank)].rank, rank);
    EXPECT_EQ(outcome().ends[static_cast<std::size_t>(rank)].host, "n1");
  }
}

// As two hosts would be, each was given the first GPU.
TEST_F(PlacedJobTest, SharesThatOverlapAreBoundAnew) {
  start("n1:2,n2:2", {});
  for (model::PlacedHost& host : placement_.hosts) {
    host.share = model::HostShare{.cpus = {0, 1}, .devices = {"GPU-0", "GPU-1"}};
  }
  come_up(0, "n1");
  come_up(1, "n1");
  turn_until([&] { return agents_->launches.size() == 1 || outcome_; });
  ASSERT_FALSE(outcome_.has_value());
  ASSERT_EQ(bound_.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_THAT(bound_[static_cast<std::size_t>(i)].gpus, ::testing::ElementsAre(i));
    EXPECT_THAT(bound_[static_cast<std::size_t>(i)].cpus, ::testing::ElementsAre(i));
  }
}

TEST_F(PlacedJobTest, RunningRanksContinueThoughTheirHostHasChanged) {
  LaunchOptions options;
  options.resumes = true;
  start("n1:2", std::move(options));
  placement_.hosts[0].share = model::HostShare{.cpus = {0, 1}, .devices = {"GPU-a", "GPU-b"}};  // of another shape
  come_up(0, "n1", true);
  answer_ping(0);
  turn_until([&] { return !bound_.empty() || outcome_; });
  EXPECT_FALSE(outcome_.has_value());
  EXPECT_TRUE(agents_->launches.empty());
  ASSERT_EQ(known_.size(), 1u);
  EXPECT_TRUE(known_[0].has_launched);
}

TEST_F(PlacedJobTest, NoRankIsStartedWithoutAMaskOnAHostWithOtherGpus) {
  start("n1:2", {});
  placement_.hosts[0].share = model::HostShare{.cpus = {0, 1}, .devices = {"GPU-a", "GPU-b"}};
  come_up(0, "n1");
  EXPECT_EQ(outcome().exit_code, 125);
  EXPECT_TRUE(agents_->launches.empty());
  ASSERT_EQ(outcome().host_failures.size(), 1u);
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("n1: the job has none of the 4 GPUs there"));
}

// The agent takes StopRanks without time for the user's word to wait for nothing any more.
TEST_F(JobRunnerTest, WhereNoRankIsLeftOnlyTheUserCutsTheWaitForGpusShort) {
  run_job(2);
  v1::AgentMessage exited;
  exited.mutable_rank_exited()->set_rank(0);
  exited.mutable_rank_exited()->set_wait_status(7 << 8);
  agents_->to->agent_message(0, exited);
  EXPECT_EQ(agents_->stopped, std::vector<int>{1});
  runner_->stop(StopCause::kInterrupt);
  EXPECT_EQ(agents_->stopped, (std::vector<int>{1, 0, 1}));
  for (const int agent : {0, 1}) {
    empty(agent);
    agents_->to->output_complete(agent);
  }
  EXPECT_EQ(outcome().exit_code, 7);
}

// A console that nobody reads (Ctrl-S, a pager) holds up the output of an interrupted job, not its end.
class InterruptedTest : public JobRunnerTest {
 protected:
  void expect_soon() {
    const auto begin = clock_.now();
    EXPECT_EQ(outcome().exit_code, 130);
    EXPECT_LT(clock_.now() - begin, 5s);
  }
};

TEST_F(InterruptedTest, OnceAndTheConsoleIsNotRead) {
  run_job(1);
  runner_->stop(StopCause::kInterrupt);
  empty(0);
  expect_soon();
}

TEST_F(InterruptedTest, OutputThatADeadAgentHadNotSentIsReported) {
  run_job(2);
  runner_->stop(StopCause::kInterrupt);
  empty(1);
  agents_->to->agent_gone(1, base::error(base::Code::kUnavailable, "killed"));
  EXPECT_EQ(agents_->ended, std::set<int>{1});
  agents_->to->output_cut(1);
  empty(0);
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 130);
  ASSERT_EQ(outcome().host_failures.size(), 1u);
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("n2: the agent there ended before it had sent all"));
}

TEST_F(InterruptedTest, TwiceAndTheConsoleIsNotRead) {
  run_job(1);
  runner_->stop(StopCause::kInterrupt);
  runner_->stop(StopCause::kInterrupt);
  EXPECT_EQ(agents_->stops, 2);
  empty(0);
  expect_soon();
}

TEST_F(InterruptedTest, TwiceAndTheHostTakesItsTime) {
  run_job(1);
  runner_->stop(StopCause::kInterrupt);
  runner_->stop(StopCause::kInterrupt);
  base::Timer later = loop_.after(kOutputAfterInterrupt + 200ms, [this] { empty(0); });
  expect_soon();
}

TEST_F(InterruptedTest, ThreeTimesAndTheAgentsAreLeftToEndTheRanks) {
  run_job(1);
  for (int time = 0; time < 3; ++time) runner_->stop(StopCause::kInterrupt);
  EXPECT_THAT(outcome().ends, ::testing::IsEmpty());
  ASSERT_EQ(outcome().unclean.size(), 1u);
  EXPECT_THAT(outcome().unclean.front().message, HasSubstr("n1: the launcher left before"));
}

// Its slots and GPUs are another job's when it has ended.
TEST_F(InterruptedTest, RepeatedStopsWaitForTheRanksIfTheJobMayNotLeave) {
  options_.may_leave = false;
  run_job(1);
  for (int time = 0; time < 4; ++time) runner_->stop(StopCause::kInterrupt);
  EXPECT_FALSE(outcome_.has_value());
  EXPECT_EQ(agents_->stops, 2);
  empty(0);
  expect_soon();
  EXPECT_EQ(outcome().ends.size(), 1u);
  EXPECT_TRUE(outcome().unclean.empty());
}

// Other jobs have it; the hosts are up.
TEST_F(PlacedJobTest, TheWaitForAShareIsNotTheTimeOfItsHosts) {
  start_timeout_ = 50ms;
  ShareAnswer waiting;
  LaunchOptions options;
  options.shares = [&](const std::vector<KnownHost>&, ShareAnswer answer) { waiting = std::move(answer); };
  start("n1:1", std::move(options));
  come_up(0, "n1");
  turn_until([&] { return waiting != nullptr; });
  const base::Timer later = loop_.after(1s, [&] { waiting(placement_); });
  turn_until([&] { return !agents_->launches.empty() || outcome_; });
  EXPECT_FALSE(outcome_.has_value());
}

// A program on a file system that does not answer.
TEST_F(PlacedJobTest, HostWhoseRanksDoNotStartFailsTheJob) {
  start_timeout_ = 500ms;
  start("n1:1,n2:2", {});
  come_up(0, "n1");
  come_up(1, "n2");
  turn_until([&] { return agents_->launches.size() == 2 || outcome_; });
  v1::AgentMessage started;
  started.mutable_rank_started()->set_rank(0);
  agents_->to->agent_message(0, started);
  v1::AgentMessage launched;
  launched.mutable_launched();
  agents_->to->agent_message(0, launched);
  started.mutable_rank_started()->set_rank(1);
  agents_->to->agent_message(1, started);
  turn_until([&] { return agents_->stops == 2 || outcome_; });
  for (const int agent : {0, 1}) {
    empty(agent);
    agents_->to->output_complete(agent);
  }
  EXPECT_EQ(outcome().exit_code, 125);
  ASSERT_EQ(outcome().host_failures.size(), 1u);
  EXPECT_THAT(outcome().host_failures.front().message, HasSubstr("n2: 1 of 2 ranks started, and no other within"));
}

TEST_F(PlacedJobTest, TimeoutRunsFromTheLaunch) {
  timeout_ = 100ms;
  start("n1:1", {});
  come_up(0, "n1");
  turn_until([&] { return agents_->stops == 1 || outcome_; });
  empty(0);
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 124);
}

// --signal: nobody knows whether the launcherd before has sent it. The agents know, so each launcherd sends it as one
// that ranks get once.
TEST_F(PlacedJobTest, TheSignalBeforeTheEndComesFromEveryLauncherdThatSeesItsTime) {
  for (const bool resumes : {false, true}) {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.input.to = model::InputTo::kNone;
    job.timeout = 60s;
    job.end_signal = {.signo = SIGUSR1, .ahead = 120s};
    model::PlacementRequest request;
    request.hosts = *model::parse_host_list("n1:1", "-H");
    placement_ = *model::place(request);
    agents_ = std::make_shared<FakeAgents>();
    agents_->on_prepare = [this](int agent) { loop_.post([this, agent] { prepared(agent); }); };
    LaunchOptions options{.job_id = "abcdefgh", .resumes = resumes};
    options.shares = [this](const std::vector<KnownHost>&, const ShareAnswer& answer) { answer(placement_); };
    RestartingJob restarting(loop_, clock_, {job, placement_, options, base::Environment(), &sink_, this},
                             [this](int) { return agents_; });
    ASSERT_TRUE(restarting.start().ok());
    come_up(0, "n1", resumes);
    answer_ping(0);
    turn_until([&] { return !bound_.empty(); });
    bound_.clear();
    EXPECT_TRUE(agents_->signals.empty()) << "ranks that are being started have no handler for it";
    v1::AgentMessage launched;
    launched.mutable_launched();
    agents_->to->agent_message(0, launched);
    turn_until([&] { return !agents_->signals.empty(); });
    EXPECT_THAT(agents_->signals, ::testing::ElementsAre(SIGUSR1));
    EXPECT_EQ(agents_->once, 1);
    EXPECT_FALSE(outcome_.has_value());
  }
}

// Its hosts take the grace time of the first stop from the beginning. If the user asked twice, they take none.
TEST_F(PlacedJobTest, NextLauncherdKeepsAStopAtOnce) {
  for (const bool is_at_once : {false, true}) {
    agents_ = std::make_shared<FakeAgents>();
    bound_.clear();
    LaunchOptions options{.job_id = "abcdefgh", .resumes = true, .resumed_stop = StopCause::kTerminate};
    options.resumed_at_once = is_at_once;
    start("n1:1", std::move(options));
    come_up(0, "n1", true);
    answer_ping(0);
    turn_until([&] { return !bound_.empty() || outcome_; });
    EXPECT_FALSE(outcome_.has_value());
    EXPECT_EQ(agents_->stops, is_at_once ? 2 : 1);
  }
}

// The launcherd before had stored the start, but ended before it sent ranks to the hosts.
TEST_F(PlacedJobTest, RanksThatWereNotStartedAreNotStartedToBeStopped) {
  start("n1:1", {.job_id = "abcdefgh", .resumes = true, .resumed_stop = StopCause::kTerminate});
  come_up(0, "n1");
  EXPECT_EQ(outcome().exit_code, 128 + SIGTERM);
  EXPECT_TRUE(agents_->launches.empty());
  EXPECT_EQ(agents_->stops, 0);
  EXPECT_TRUE(known_.empty()) << "it asks for no share";
}

// Its ranks may run on the host that has not come back yet, and its slots would be given to others.
TEST_F(PlacedJobTest, AStopWhileHostsComeBackWaitsForThem) {
  for (const bool is_at_once : {false, true}) {
    agents_ = std::make_shared<FakeAgents>();
    bound_.clear();
    start("n1:1,n2:1", {.job_id = "abcdefgh", .resumes = true});
    come_up(0, "n1", true);
    answer_ping(0);
    runner_->stop(StopCause::kTerminate);
    if (is_at_once) runner_->stop(StopCause::kTerminate);
    EXPECT_EQ(agents_->stops, 0);
    come_up(1, "n2", true);
    answer_ping(1);
    turn_until([&] { return !bound_.empty() || outcome_; });
    EXPECT_FALSE(outcome_.has_value());
    EXPECT_EQ(agents_->stops, is_at_once ? 4 : 2);
  }
}

TEST_F(PlacedJobTest, AStopDoesNotWaitForEverForAHostThatDoesNotComeBack) {
  start("n1:1,n2:1", {.job_id = "abcdefgh", .resumes = true});
  come_up(0, "n1", true);
  answer_ping(0);
  runner_->stop(StopCause::kTerminate);
  runner_->stop(StopCause::kTerminate);
  turn_until([&] { return agents_->stops > 0 || outcome_; });
  EXPECT_FALSE(outcome_.has_value()) << "ranks run on the host that is there";
  EXPECT_THAT(agents_->stopped, ::testing::ElementsAre(0));
  EXPECT_EQ(agents_->dropped, std::set<int>{1});
  empty(0);
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 128 + SIGTERM);
  EXPECT_EQ(outcome().ends.size(), 1u);
  ASSERT_EQ(outcome().unclean.size(), 1u);
  EXPECT_THAT(outcome().unclean.front().message, HasSubstr("n2: the agent there has not come back"));
}

TEST_F(PlacedJobTest, AHostThatIsLostAfterTheStopIsNotWhyTheJobEnds) {
  start("n1:1,n2:1", {.job_id = "abcdefgh", .resumes = true});
  come_up(0, "n1", true);
  answer_ping(0);
  runner_->stop(StopCause::kTerminate);
  agents_->to->agent_gone(1, base::error(base::Code::kUnavailable, "killed"));
  turn_until([&] { return agents_->stops > 0 || outcome_; });
  EXPECT_FALSE(outcome_.has_value());
  empty(0);
  agents_->to->output_complete(0);
  EXPECT_EQ(outcome().exit_code, 128 + SIGTERM);
}

// It waits for a share, as the launcherd before had left it.
TEST_F(PlacedJobTest, WhereNoRankCanRunAStopIsTheEnd) {
  ShareAnswer waiting;
  LaunchOptions options{.job_id = "abcdefgh", .resumes = true};
  options.shares = [&](const std::vector<KnownHost>&, ShareAnswer answer) { waiting = std::move(answer); };
  start("n1:1", std::move(options));
  come_up(0, "n1");
  turn_until([&] { return waiting != nullptr; });
  runner_->stop(StopCause::kTerminate);
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->exit_code, 128 + SIGTERM);
  EXPECT_TRUE(outcome_->unclean.empty());
  EXPECT_TRUE(agents_->launches.empty());
}

// Its rank failed, which would have it started again, and then it was killed; the launcherd ended before its end.
TEST_F(PlacedJobTest, AJobThatWasStoppedIsNotStartedAgainByTheNextLauncherd) {
  model::JobSpec job;
  job.command = {"./a"};
  job.workdir = "/";
  job.input.to = model::InputTo::kNone;
  job.max_restarts = 1;
  model::PlacementRequest request;
  request.hosts = *model::parse_host_list("n1:1", "-H");
  placement_ = *model::place(request);
  LaunchOptions options{.job_id = "abcdefgh", .resumes = true, .resumed_stop = StopCause::kTerminate};
  options.shares = [this](const std::vector<KnownHost>&, const ShareAnswer& answer) { answer(placement_); };
  int attempts = 0;
  RestartingJob restarting(loop_, clock_, {job, placement_, options, base::Environment(), &sink_, this}, [&](int) {
    ++attempts;
    return agents_;
  });
  ASSERT_TRUE(restarting.start().ok());
  std::vector<v1::AgentMessage> history(4);
  history[0].mutable_prepared()->set_interface("eth0");
  history[0].mutable_prepared()->set_address("10.0.0.1");
  history[1].mutable_launched();
  history[2].mutable_rank_exited()->set_wait_status(3 << 8);
  history[3].mutable_host_empty()->set_no_output(true);
  come_up(0, "n1", true, std::move(history));
  answer_ping(0);
  turn_until([&] { return outcome_ || attempts > 1; });
  EXPECT_EQ(attempts, 1);
  ASSERT_TRUE(outcome_.has_value());
  EXPECT_EQ(outcome_->exit_code, 3) << "what ended it stays what it was";
}

}  // namespace
}  // namespace muster::launcherd::job_runner_test
