#include "bench/simulated_agents.h"

#include <functional>
#include <string>
#include <utility>

#include "agent/link/control_client.h"
#include "base/ids.h"
#include "base/net.h"
#include "base/thread.h"
#include "base/tls.h"
#include "proto/peer_names.h"

namespace muster::bench {
namespace {

constexpr std::chrono::milliseconds kRankTime{200};
constexpr int kFirstPid = 1'000;

agent::ControlClientOptions options_of(const v1::PoolState& state, const v1::PoolAgent& agent) {
  agent::ControlClientOptions options;
  options.endpoint = fmt::format("127.0.0.1:{}", state.control_port());
  options.ca_pem = state.ca_pem();
  options.certificate_pem = state.agent_certificate_pem();
  options.key_pem = state.agent_key_pem();
  options.token = agent.token();
  return options;
}

// An address beside loopback: rank 0's host must be one that the others could reach.
std::string address_of(int number) {
  return fmt::format("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
}

v1::Hello hello_of(const v1::PoolState& state, const v1::PoolAgent& agent) {
  v1::Hello hello;
  hello.set_job_id(state.id());
  hello.set_agent_index(agent.number());
  hello.set_hostname(agent.name());
  hello.set_netns_inode(static_cast<std::uint64_t>(agent.number()) + 1);
  v1::NetworkInterface& interface = *hello.add_interfaces();
  interface.set_name("sim0");
  interface.set_address(address_of(agent.number()));
  return hello;
}

}  // namespace

class SimulatedAgent {
 public:
  SimulatedAgent(base::Loop& loop, const v1::PoolState& state, const v1::PoolAgent& agent,
                 std::function<void(bool is_first)> on_welcome, std::function<void()> on_cut)
      : loop_(loop),
        address_(address_of(agent.number())),
        on_welcome_(std::move(on_welcome)),
        client_(agent::ControlClient::start(loop, options_of(state, agent), hello_of(state, agent))) {
    client_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
    client_->on_cut = [this, cut = std::move(on_cut)](const agent::StreamEnd&) {
      if (is_welcome_) cut();
    };
  }

  void end_ranks() {
    exits_ = loop_.after(kRankTime, [this] { exit(); });
  }

 private:
  void handle(const v1::LauncherMessage& message) {
    v1::AgentMessage answer;
    answer.set_job_id(message.job_id());
    if (message.has_welcome()) {
      on_welcome_(!std::exchange(is_welcome_, true));
    } else if (message.has_ping()) {
      answer.mutable_pong()->set_launcher_ns(message.ping().launcher_ns());
      answer.mutable_pong()->set_agent_ns(message.ping().launcher_ns());
      client_->send_unnumbered(std::move(answer));
    } else if (message.has_open_job()) {
      answer.mutable_job_opened()->set_containment("simulated");
      client_->send(std::move(answer));
    } else if (message.has_prepare()) {
      answer.mutable_prepared()->set_interface("sim0");
      answer.mutable_prepared()->set_address(address_);
      answer.mutable_prepared()->set_master_port(1);
      client_->send(std::move(answer));
    } else if (message.has_launch()) {
      launch(message.job_id(), message.launch());
    } else if (message.has_leave() && !message.job_id().empty()) {
      answer.mutable_job_closed();
      client_->send(std::move(answer));
    }
  }

  void launch(const std::string& job, const v1::Launch& launch) {
    job_ = job;
    v1::AgentMessage started;  // as RankGroups of agent/job sends it
    started.set_job_id(job);
    for (const v1::LaunchRank& rank : launch.ranks()) {
      ranks_.push_back(rank.rank());
      started.mutable_ranks_started()->add_ranks(rank.rank());
      started.mutable_ranks_started()->add_pids(kFirstPid + rank.rank());
    }
    client_->send(std::move(started));
    v1::AgentMessage launched;
    launched.set_job_id(job);
    launched.mutable_launched();
    client_->send(std::move(launched));
  }

  void exit() {
    v1::AgentMessage exited;
    exited.set_job_id(job_);
    for (const int rank : std::exchange(ranks_, {})) {
      exited.mutable_ranks_exited()->add_ranks(rank);
      exited.mutable_ranks_exited()->add_pids(kFirstPid + rank);
    }
    client_->send(std::move(exited));
    v1::AgentMessage empty;
    empty.set_job_id(job_);
    empty.mutable_host_empty()->set_no_output(true);
    client_->send(std::move(empty));
  }

  base::Loop& loop_;
  const std::string address_;
  const std::function<void(bool)> on_welcome_;
  bool is_welcome_ = false;
  std::string job_;
  std::vector<int> ranks_;
  base::Timer exits_;
  std::unique_ptr<agent::ControlClient> client_;
};

base::Result<v1::PoolState> pool_state(int agents) {
  v1::PoolState state;
  state.set_id(base::JobId::random().str());
  MUSTER_ASSIGN_OR_RETURN(const auto ca, base::CertificateAuthority::create());
  MUSTER_ASSIGN_OR_RETURN(const auto own, ca.issue("launcherd", {std::string(proto::kLauncherName)}));
  MUSTER_ASSIGN_OR_RETURN(const auto shared, ca.issue("agent", {"URI:" + proto::agent_uri(state.id())}));
  MUSTER_ASSIGN_OR_RETURN(*state.mutable_ca_key_pem(), ca.key_pem());
  state.set_ca_pem(ca.ca_pem());
  state.set_certificate_pem(own.cert_pem);
  state.set_key_pem(own.key_pem);
  state.set_agent_certificate_pem(shared.cert_pem);
  state.set_agent_key_pem(shared.key_pem);
  state.set_control_port(base::port_to_keep());
  state.set_output_port(base::port_to_keep());
  for (int i = 0; i < agents; ++i) {
    v1::PoolAgent& agent = *state.add_agents();
    agent.set_name(fmt::format("s{:05}", i));
    agent.set_token(base::random_hex(32));
    agent.set_number(i);
  }
  return state;
}

SimulatedAgents::SimulatedAgents(const v1::PoolState& state) : state_(state) {}

base::Result<std::unique_ptr<SimulatedAgents>> SimulatedAgents::start(const v1::PoolState& state, int dialling) {
  std::unique_ptr<SimulatedAgents> agents(new SimulatedAgents(state));
  MUSTER_ASSIGN_OR_RETURN(agents->thread_, base::start_thread([all = agents.get(), dialling] {
                            for (int i = 0; i < dialling; ++i) all->dial_next();
                            all->loop_.run();
                            all->agents_.clear();
                          }));
  return agents;
}

SimulatedAgents::~SimulatedAgents() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void SimulatedAgents::dial_next() {
  const int next = static_cast<int>(agents_.size());
  if (next == state_.agents_size()) return;
  agents_.push_back(std::make_unique<SimulatedAgent>(
      loop_, state_, state_.agents(next), [this](bool is_first) { welcomed(is_first); }, [this] { was_cut(); }));
}

void SimulatedAgents::welcomed(bool is_first) {
  if (!is_first) return;
  dial_next();
  const std::lock_guard lock(mutex_);
  ++welcome_;
  changed_.notify_all();
}

void SimulatedAgents::was_cut() {
  const std::lock_guard lock(mutex_);
  ++cuts_;
}

base::Status SimulatedAgents::wait_until_welcome_blocking(std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, patience, [this] { return welcome_ == state_.agents_size(); })) return base::ok_status();
  return base::error(base::Code::kDeadlineExceeded, "launcherd has welcomed {} of {} agents within {} s", welcome_,
                     state_.agents_size(), patience.count());
}

std::chrono::steady_clock::time_point SimulatedAgents::end_ranks() {
  const auto due = std::chrono::steady_clock::now() + kRankTime;
  loop_.post([this] {
    for (const auto& agent : agents_) agent->end_ranks();
  });
  return due;
}

int SimulatedAgents::cuts() const {
  const std::lock_guard lock(mutex_);
  return cuts_;
}

}  // namespace muster::bench
