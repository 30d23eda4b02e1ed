// Jobs with hosts that are late or do not come up. The agents are fakes.
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/agents/job_agents.h"
#include "launcherd/run/restarting_job.h"
#include "model/job_placement.h"
#include "tests/unit/launcherd/run/no_output.h"
#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::job_late_test {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class FakeAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost> started, OutputSink*, AgentListener* listener) override {
    hosts = std::move(started);
    to = listener;
    return base::ok_status();
  }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override {
    if (message.has_launch()) launches[agent] = message.launch();
    if (message.has_prepare()) {
      prepares[agent] = message.prepare();
      if (on_prepare) on_prepare(agent);
    }
  }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int agent) override { left.insert(name(agent)); }
  void drop(int agent) override { dropped.insert(name(agent)); }
  void sweep(int, std::function<void(base::Result<CommandResult>)>) override { ADD_FAILURE() << "nothing is swept"; }

  const std::string& name(int agent) const { return hosts[static_cast<std::size_t>(agent)].target.name; }

  std::vector<AgentHost> hosts;
  AgentListener* to = nullptr;
  std::map<int, v1::Launch> launches;
  std::map<int, v1::Prepare> prepares;
  std::set<std::string> left;
  std::set<std::string> dropped;
  std::function<void(int agent)> on_prepare;
};

class JobLateTest : public ::testing::Test, public JobObserver {
 protected:
  void start(const char* hosts, int min_hosts, int np = 0, const char* spares = "") {
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list(hosts, "-H");
    job.placement.np = np;
    job.min_hosts = min_hosts;
    job.start_timeout = start_timeout_;
    job.input.to = model::InputTo::kNone;
    if (*spares != '\0') {
      job.failure.spares = *model::parse_host_list(spares, "--spares");
      job.failure.on_failure = model::OnFailure::kReplace;
    }
    const auto placement = model::place(job);
    ASSERT_TRUE(placement.ok()) << placement.status();
    agents_->on_prepare = [this](int agent) { loop_.post([this, agent] { prepared(agent); }); };
    job_ = std::make_unique<RestartingJob>(
        loop_, clock_, JobSetup{job, *placement, {.job_id = "abcdefgh"}, base::Environment(), &sink_, this},
        [this](int) { return agents_; });
    ASSERT_TRUE(job_->start().ok());
  }
  int agent_of(const std::string& host) const {
    for (std::size_t i = 0; i < agents_->hosts.size(); ++i) {
      if (agents_->hosts[i].target.name == host) return static_cast<int>(i);
    }
    ADD_FAILURE() << host << " has no agent";
    return 0;
  }
  void come_up(const std::string& host) {
    const int agent = agent_of(host);
    agents_->to->agent_started(agent);
    up(agent);
  }
  void up(int agent) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(agents_->name(agent));
    up.hello.add_cores()->add_cpus(0);
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.{}.{}", agent / 200, 1 + agent % 200));
    agents_->to->agent_up(agent, std::move(up));
  }
  void prepared(int agent) {
    if (silent_.contains(agents_->name(agent))) return;
    v1::AgentMessage message;
    message.mutable_prepared()->set_interface("eth0");
    message.mutable_prepared()->set_address(fmt::format("10.0.{}.{}", agent / 200, 1 + agent % 200));
    message.mutable_prepared()->set_master_port(4242);
    agents_->to->agent_message(agent, message);
  }
  void refuse(const std::string& host) {
    agents_->to->agent_failed(agent_of(host),
                              fmt::format("host {}: nothing accepts connections at 10.0.0.9 port 22 (connection "
                                          "refused); start sshd there",
                                          host));
  }
  // Waits until these many hosts have ranks, and returns them: "n1:0,1 n3:2,3".
  std::string launched(std::size_t hosts) {
    testing_support::turn_until(loop_, [&] { return agents_->launches.size() == hosts || outcome_; });
    std::map<int, std::string> by_first;  // by the first rank
    for (const auto& [agent, launch] : agents_->launches) {
      std::string ranks;
      for (const v1::LaunchRank& rank : launch.ranks()) {
        ranks += fmt::format("{}{}", ranks.empty() ? "" : ",", rank.rank());
      }
      by_first[launch.ranks(0).rank()] = fmt::format("{}:{}", agents_->name(agent), ranks);
    }
    std::string text;
    for (const auto& [rank, host] : by_first) text += (text.empty() ? "" : " ") + host;
    return text;
  }
  // The messages of a job that did not start.
  std::vector<std::string> failures() {
    testing_support::turn_until(loop_, [&] { return outcome_.has_value(); });
    std::vector<std::string> messages;
    if (!outcome_) return messages;
    EXPECT_EQ(outcome_->exit_code, 125);
    for (const HostFailure& failure : outcome_->host_failures) messages.push_back(failure.message);
    return messages;
  }

  void on_progress(int up, int total, const std::vector<std::string>& waiting) override {
    progress_.push_back(fmt::format("{}/{} {}", up, total, waiting.size()));
  }
  void on_running() override {}
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { lines_.push_back(line); }
  void on_remark(const std::string& line) override { lines_.push_back(line); }
  void on_root_cause(const model::RankEnd&) override {}
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const out = std::get_if<model::HostsLeftOut>(&event)) left_out_.push_back(*out);
    if (const auto* const starting = std::get_if<model::JobStarting>(&event)) size_ = starting->placement.size;
  }

  std::chrono::milliseconds start_timeout_{30s};
  std::set<std::string> silent_;  // hosts that do not prepare
  base::SystemClock clock_;
  base::Loop loop_;
  testing_support::NoOutput sink_;
  std::shared_ptr<FakeAgents> agents_ = std::make_shared<FakeAgents>();
  std::unique_ptr<RestartingJob> job_;
  std::optional<JobOutcome> outcome_;
  std::vector<std::string> lines_;
  std::vector<std::string> progress_;
  std::vector<model::HostsLeftOut> left_out_;
  int size_ = 0;  // of the placement in JobStarting
};

TEST_F(JobLateTest, WithoutMinHostsTheTimeLimitNamesEachHostAndItsStep) {
  start_timeout_ = 50ms;
  start("n[1-3]:1", 0);
  come_up("n1");
  agents_->to->agent_started(agent_of("n3"));
  EXPECT_THAT(failures(), ElementsAre(HasSubstr("n2: no log-in within 0 s; check the host and its network"),
                                      HasSubstr("n3: the agent was started but did not report within 0 s; check")));
}

TEST_F(JobLateTest, TheTimeLimitNamesHostsThatDoNotPrepare) {
  start_timeout_ = 50ms;
  silent_ = {"n2"};
  start("n[1-3]:1", 0);
  for (const char* const host : {"n1", "n2", "n3"}) come_up(host);
  EXPECT_THAT(failures(),
              ElementsAre(HasSubstr("n2: the agent was up but did not prepare the host within 0 s; check")));
  EXPECT_EQ(agents_->dropped, std::set<std::string>{"n2"});
}

TEST_F(JobLateTest, StartsWithoutAHostThatRefuses) {
  start("n[1-3]:2", 2);
  refuse("n2");
  EXPECT_FALSE(outcome_.has_value());
  come_up("n1");
  EXPECT_TRUE(agents_->prepares.empty()) << "n3 may still come up";
  come_up("n3");
  EXPECT_EQ(launched(2), "n1:0,1 n3:2,3");
  ASSERT_EQ(left_out_.size(), 1u);
  EXPECT_EQ(model::describe(left_out_[0]),
            "1 host is not up, so the job starts without it: n2: nothing accepts connections on port 22 (connection "
            "refused)");
  EXPECT_EQ(size_, 4);
}

TEST_F(JobLateTest, StartsWithoutLateHostsAtTheTimeLimit) {
  start_timeout_ = 50ms;
  start("n[1-4]:1", 2);
  come_up("n4");
  agents_->to->agent_started(agent_of("n3"));
  come_up("n2");
  EXPECT_EQ(launched(2), "n2:0 n4:1");
  ASSERT_EQ(left_out_.size(), 1u);
  EXPECT_THAT(left_out_[0].hosts, ElementsAre("n1", "n3"));
  EXPECT_THAT(left_out_[0].reasons,
              ElementsAre("no log-in within 0 s", "the agent was started but did not report within 0 s"));
  EXPECT_EQ(agents_->dropped, (std::set<std::string>{"n1", "n3"}));
  up(agent_of("n1"));  // too late
  EXPECT_EQ(agents_->launches.size(), 2u);
}

TEST_F(JobLateTest, TheRanksOfNpMustFit) {
  start_timeout_ = 50ms;
  start("n[1-3]:2", 1, 5);
  come_up("n1");
  come_up("n2");
  EXPECT_THAT(failures(),
              ElementsAre(HasSubstr("n3: no log-in"),
                          HasSubstr("-np 5 needs 5 slots, but the 2 hosts that are up have 4; leave -np out")));
}

TEST_F(JobLateTest, FreeSlotsOfOtherHostsOfTheListTakeTheRanksOfNp) {
  start("n[1-3]:2", 2, 4);
  ASSERT_EQ(agents_->hosts.size(), 3u) << "n3 has no rank, but may get some";
  come_up("n1");
  refuse("n2");
  come_up("n3");
  EXPECT_EQ(launched(2), "n1:0,1 n3:2,3");
}

TEST_F(JobLateTest, TooFewHostsEndTheJobAtOnceWithCounts) {
  start("n[1-3]:1", 2);
  refuse("n1");
  come_up("n2");
  refuse("n3");
  EXPECT_THAT(failures(), ElementsAre(HasSubstr("1 of 3 hosts are up, fewer than --min-hosts 2; raise --start-timeout"),
                                      HasSubstr("host n1: nothing accepts"), HasSubstr("host n3: nothing accepts")));
}

TEST_F(JobLateTest, SparesTakeThePlacesOfHostsThatAreNotUp) {
  start("n[1-3]:2", 3, 0, "s1,s2,s3");
  ASSERT_EQ(agents_->hosts.size(), 6u);
  refuse("n1");
  refuse("s1");
  for (const char* const host : {"n2", "n3", "s2", "s3"}) come_up(host);
  EXPECT_EQ(launched(3), "s2:0,1 n2:2,3 n3:4,5");
  EXPECT_EQ(agents_->left, std::set<std::string>{"s3"}) << "it is not needed";
  // Rank 0 runs on s2, whose address all others get.
  EXPECT_EQ(agents_->prepares.at(agent_of("n2")).master_address(), "10.0.0.5");
  EXPECT_THAT(lines_, ElementsAre("s2 takes the place of hosts that are not up"));
}

TEST_F(JobLateTest, WhenAllMembersAreUpNoSpareIsWaitedFor) {
  start("n[1-2]:1", 2, 0, "s1,s2");
  come_up("s1");
  come_up("n1");
  come_up("n2");
  EXPECT_EQ(launched(2), "n1:0 n2:1");
  EXPECT_TRUE(left_out_.empty());
  EXPECT_EQ(agents_->left, std::set<std::string>{"s1"});
  EXPECT_EQ(agents_->dropped, std::set<std::string>{"s2"});
}

TEST_F(JobLateTest, TwoNamesOfOneHostAreOneAlsoWhenOthersAreMissing) {
  start("n[1-4]:1", 2);
  refuse("n2");
  come_up("n1");
  come_up("n3");
  AgentUp same;
  same.link = "dial";
  same.hello.set_hostname("n1");
  same.hello.add_cores()->add_cpus(0);
  v1::NetworkInterface& network = *same.hello.add_interfaces();
  network.set_name("eth0");
  network.set_address("10.0.0.1");
  agents_->to->agent_up(agent_of("n4"), std::move(same));
  EXPECT_EQ(launched(2), "n1:0,1 n3:2");
  EXPECT_THAT(lines_, ElementsAre("n1 and n4 are the same host; their slots are added"));
}

// The whole start of a large job: its lines are short, and it is not slow.
TEST_F(JobLateTest, TenThousandHostsWithoutTwentyNine) {
  constexpr int kHosts = 10'000;
  const auto begin = std::chrono::steady_clock::now();
  start("n[00001-10000]:8", 9'900);
  agents_->on_prepare = nullptr;
  for (int agent = 0; agent < kHosts; ++agent) {
    if (agent % 345 != 7) up(agent);
  }
  for (int agent = 7; agent < kHosts; agent += 345) {
    agents_->to->agent_failed(agent, fmt::format("host n{:05}: no answer at 10.0.0.9 port 22 in time (30 s); check "
                                                 "that the host is up",
                                                 agent + 1));
  }
  ASSERT_FALSE(outcome_.has_value());
  EXPECT_EQ(agents_->prepares.size(), 9'971u);
  EXPECT_EQ(size_, 79'768);
  ASSERT_EQ(left_out_.size(), 1u);
  const std::string line = model::describe(left_out_[0]);
  EXPECT_LE(line.size(), 400u) << line;
  EXPECT_THAT(line, HasSubstr("29 hosts are not up, so the job starts without them: n[00008,00353,"));
  EXPECT_THAT(line, HasSubstr(" more: no answer on port 22 in time (30 s)"));
  EXPECT_LE(progress_.size(), 100u) << "it is limited, because each report names all hosts that are not up";
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 60s);  // 1 s on an idle machine
}

}  // namespace
}  // namespace muster::launcherd::job_late_test
