// A job whose ranks change, with fake agents: the core, LiveJob and the driver together.
#pragma once

#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "launcherd/agents/job_agents.h"
#include "launcherd/run/job_runner.h"
#include "tests/unit/launcherd/run/no_output.h"
#include "tests/unit/support/turn_until.h"

namespace muster::launcherd::live_job_harness {

using namespace std::chrono_literals;

class LiveAgents final : public JobAgents {
 public:
  base::Status start(std::vector<AgentHost>, OutputSink*, AgentListener* listener) override {
    to = listener;
    return base::ok_status();
  }
  base::Status add(AgentHost host) override {
    added.push_back(std::move(host));
    return base::ok_status();
  }
  void start_added(int agent) override { begun.insert(agent); }
  void cancel_start() override {}
  void send(int agent, v1::LauncherMessage message) override {
    if (on_send) on_send(agent, message);
    sent[agent].push_back(std::move(message));
  }
  void send_unnumbered(int, v1::LauncherMessage) override {}
  void expect_output(int, const std::vector<int>&) override {}
  void output_ends(int) override {}
  void leave(int agent) override { left.insert(agent); }
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
  std::vector<AgentHost> added;
  std::set<int> begun;  // of the added ones
  std::set<int> left;
  std::set<int> dropped;
  std::map<int, std::function<void(base::Result<CommandResult>)>> sweeps;
  std::function<void(int agent, const v1::LauncherMessage& message)> on_send;
};

class LiveJobHarness : public ::testing::Test, public JobObserver {
 protected:
  // Hosts of two ranks each, with numbers 2 * agent and 2 * agent + 1.
  void run_job(int hosts, model::ElasticSpec live = {.min_ranks = 2}) {
    start_agents(hosts, live);
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
  // Starts a job of such hosts. Their agents do not come up by themselves.
  void start_agents(int hosts, model::ElasticSpec live = {.min_ranks = 2}) {
    hosts_ = hosts;
    model::JobSpec job;
    job.command = {"./a"};
    job.workdir = "/";
    job.placement.hosts = *model::parse_host_list(fmt::format("n[1-{}]:2", hosts), "-H");
    job.kill_grace = 60s;
    job.input.to = model::InputTo::kNone;
    job.live = live;
    auto placement = model::place(job.placement);
    ASSERT_TRUE(placement.ok()) << placement.status();
    for (model::PlacedHost& host : placement->hosts) host.share = share_;
    options_.job_id = "abcdefgh";
    agents_->on_send = [this](int agent, const v1::LauncherMessage& message) { answer(agent, message); };
    runner_ = std::make_unique<JobRunner>(
        loop_, clock_, JobSetup{job, *placement, options_, base::Environment(), &sink_, this}, agents_);
    ASSERT_TRUE(runner_->start().ok());
  }
  void come_up(int agent) { come_up(agent, fmt::format("n{}", agent + 1), agent); }
  void come_up(int agent, const std::string& name, int address) {
    AgentUp up;
    up.link = "dial";
    up.hello.set_hostname(name);
    for (int cpu = 0; cpu < cores_; ++cpu) up.hello.add_cores()->add_cpus(cpu);
    v1::NetworkInterface& network = *up.hello.add_interfaces();
    network.set_name("eth0");
    network.set_address(fmt::format("10.0.0.{}", address + 1));
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
  const v1::LauncherMessage* last(int agent, v1::LauncherMessage::BodyCase body) const {
    const auto found = agents_->sent.find(agent);
    if (found == agents_->sent.end()) return nullptr;
    const auto at = std::find_if(found->second.rbegin(), found->second.rend(),
                                 [body](const auto& each) { return each.body_case() == body; });
    return at == found->second.rend() ? nullptr : &*at;
  }
  // Plays an agent that starts new processes, which put their first keys.
  void start_processes(int agent, const v1::Launch& launch) {
    for (const v1::LaunchRank& rank : launch.ranks()) {
      running_.insert(rank.rank());
      v1::AgentMessage started;
      started.mutable_rank_started()->set_rank(rank.rank());
      started.mutable_rank_started()->set_pid(1000 + rank.rank());
      agents_->to->agent_message(agent, started);
      v1::AgentMessage put;
      put.mutable_first_put()->set_number(rank.rank());
      agents_->to->agent_message(agent, put);
    }
    v1::AgentMessage launched;
    launched.mutable_launched();
    agents_->to->agent_message(agent, launched);
  }
  // Runs a job of n1, and lets n2 join up to the given point.
  void add_host() {
    run_job(1, {.min_ranks = 1});
    ASSERT_TRUE(runner_->set_live_hosts(*model::parse_host_list("n1:2,n2:2", "hosts")).ok());
    check_in({0, 1});
    turn_until([this] { return agents_->begun.contains(1); });
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
  void turn_until(const std::function<bool()>& is_done) { testing_support::turn_until(loop_, is_done); }
  const JobOutcome& outcome() {
    turn_until([this] { return outcome_.has_value(); });
    return outcome_ ? *outcome_ : outcome_.emplace();
  }

  void on_progress(int, int, const std::vector<std::string>&) override {}
  void on_running() override { ++on_running_; }
  void on_note(const std::string&) override {}
  void on_warning(const std::string& line) override { warnings_.push_back(line); }
  void on_root_cause(const model::RankEnd& root) override { root_ = root; }
  void on_bound(const std::vector<model::BoundRank>& ranks) override { bound_ = ranks; }
  void on_finished(const JobOutcome& finished) override { outcome_ = finished; }
  void on_live_hosts(const LiveHosts& hosts) override { report_ = hosts; }
  void on_event(const model::JobEvent& event) override {
    if (const auto* const began = std::get_if<model::GenerationBegan>(&event)) begun_.push_back(*began);
    if (const auto* const first = std::get_if<model::FirstCollectiveEnded>(&event)) collectives_.push_back(*first);
    if (const auto* const end = std::get_if<model::RankEnd>(&event)) ends_.push_back(*end);
    if (const auto* const up = std::get_if<model::RankUp>(&event)) ups_.push_back(*up);
    if (const auto* const up = std::get_if<model::HostUp>(&event)) hosts_up_.push_back(up->host);
  }

  base::SystemClock clock_;
  base::Loop loop_;
  muster::testing_support::NoOutput sink_;
  std::shared_ptr<LiveAgents> agents_ = std::make_shared<LiveAgents>();
  std::unique_ptr<JobRunner> runner_;
  int hosts_ = 0;
  int cores_ = 2;                          // of each host
  std::optional<model::HostShare> share_;  // of each host at the start
  LaunchOptions options_;
  bool opens_stores_ = true;
  std::set<int> running_;
  std::set<int> silent_;
  int on_running_ = 0;
  std::vector<std::string> warnings_;
  std::vector<model::GenerationBegan> begun_;
  std::vector<model::FirstCollectiveEnded> collectives_;
  std::vector<model::RankEnd> ends_;
  std::vector<model::RankUp> ups_;
  std::vector<model::BoundRank> bound_;
  std::vector<std::string> hosts_up_;
  std::optional<model::RankEnd> root_;
  LiveHosts report_;  // the last one
  std::optional<JobOutcome> outcome_;
};

}  // namespace muster::launcherd::live_job_harness
