#include "bench/simulated_agents.h"

#include <csignal>
#include <functional>
#include <string>
#include <utility>

#include "agent/link/control_client.h"
#include "base/ids.h"
#include "base/net.h"
#include "base/thread.h"
#include "proto/control_key.h"

namespace muster::bench {
namespace {

constexpr std::chrono::milliseconds kRankTime{200};
constexpr int kFirstPid = 1'000;

agent::ControlClientOptions options_of(const v1::PoolState& state, const v1::PoolAgent& agent, SimulatedRelay* relay) {
  agent::ControlClientOptions options;
  if (relay != nullptr) {
    options.open_channel = [relay](base::Loop::Task on_ready) { return relay->open(std::move(on_ready)); };
  } else {
    options.route = std::make_shared<agent::LauncherRoute>(base::IpAddress::parse("127.0.0.1").value());
    options.port = static_cast<std::uint16_t>(state.control_port());
  }
  options.key = proto::control_key(state.id(), agent.token());
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
  struct Events {
    std::function<void(bool is_first)> on_welcome;
    std::function<void()> on_back;  // another launcherd has welcomed it
    std::function<void()> on_cut;
  };

  SimulatedAgent(base::Loop& loop, const v1::PoolState& state, const v1::PoolAgent& agent, SimulatedRelay* relay,
                 Events events)
      : loop_(loop),
        address_(address_of(agent.number())),
        events_(std::move(events)),
        client_(agent::ControlClient::start(loop, options_of(state, agent, relay), hello_of(state, agent))) {
    client_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
    client_->on_cut = [this](const agent::StreamEnd&) {
      if (is_welcome_) events_.on_cut();
    };
    client_->on_new_launcher = [this] { events_.on_back(); };
  }

  void end_ranks() {
    exits_ = loop_.after(kRankTime, [this] { exit(); });
  }

 private:
  void handle(const v1::LauncherMessage& message) {
    v1::AgentMessage answer;
    answer.set_job_id(message.job_id());
    if (message.has_welcome()) {
      events_.on_welcome(!std::exchange(is_welcome_, true));
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
    } else if (message.has_stop_ranks()) {
      stop();
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

  // Each rank ends by SIGTERM, on its own, because the launcher hears of each.
  void stop() {
    if (ranks_.empty()) return;
    for (const int rank : std::exchange(ranks_, {})) {
      v1::AgentMessage exited;
      exited.set_job_id(job_);
      exited.mutable_rank_exited()->set_rank(rank);
      exited.mutable_rank_exited()->set_pid(kFirstPid + rank);
      exited.mutable_rank_exited()->set_wait_status(SIGTERM);
      exited.mutable_rank_exited()->set_stopped_by_us(true);
      client_->send(std::move(exited));
    }
    host_is_empty();
  }

  void exit() {
    v1::AgentMessage exited;
    exited.set_job_id(job_);
    for (const int rank : std::exchange(ranks_, {})) {
      exited.mutable_ranks_exited()->add_ranks(rank);
      exited.mutable_ranks_exited()->add_pids(kFirstPid + rank);
    }
    client_->send(std::move(exited));
    host_is_empty();
  }

  void host_is_empty() {
    v1::AgentMessage empty;
    empty.set_job_id(job_);
    empty.mutable_host_empty()->set_no_output(true);
    client_->send(std::move(empty));
  }

  base::Loop& loop_;
  const std::string address_;
  const Events events_;
  bool is_welcome_ = false;
  std::string job_;
  std::vector<int> ranks_;
  base::Timer exits_;
  std::unique_ptr<agent::ControlClient> client_;
};

base::Result<v1::PoolState> pool_state(int agents) {
  v1::PoolState state;
  state.set_id(base::JobId::random().str());
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

base::Result<std::unique_ptr<SimulatedAgents>> SimulatedAgents::start(const v1::PoolState& state, int dialling,
                                                                      int relays) {
  std::unique_ptr<SimulatedAgents> agents(new SimulatedAgents(state));
  for (int i = 0; i < relays; ++i) {
    agents->relays_.push_back(
        std::make_unique<SimulatedRelay>(agents->loop_, static_cast<std::uint16_t>(state.control_port())));
  }
  MUSTER_ASSIGN_OR_RETURN(agents->thread_, base::start_thread([all = agents.get(), dialling] {
                            for (int i = 0; i < dialling; ++i) all->dial_next();
                            all->loop_.run();
                            all->agents_.clear();
                            all->relays_.clear();
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
  const auto place = static_cast<std::size_t>(next);
  SimulatedRelay* const relay =
      place < relays_.size() || relays_.empty() ? nullptr : relays_[place % relays_.size()].get();
  SimulatedAgent::Events events;
  events.on_welcome = [this](bool is_first) { welcomed(is_first); };
  events.on_back = [this] { came_back(); };
  events.on_cut = [this] { was_cut(); };
  agents_.push_back(std::make_unique<SimulatedAgent>(loop_, state_, state_.agents(next), relay, std::move(events)));
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

void SimulatedAgents::came_back() {
  const std::lock_guard lock(mutex_);
  ++back_;
  changed_.notify_all();
}

base::Status SimulatedAgents::wait_blocking(const int& count, std::chrono::seconds patience) {
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, patience, [&] { return count == state_.agents_size(); })) return base::ok_status();
  return base::error(base::Code::kDeadlineExceeded, "launcherd has welcomed {} of {} agents within {} s", count,
                     state_.agents_size(), patience.count());
}

base::Status SimulatedAgents::wait_until_welcome_blocking(std::chrono::seconds patience) {
  return wait_blocking(welcome_, patience);
}

base::Status SimulatedAgents::wait_until_back_blocking(std::chrono::seconds patience) {
  return wait_blocking(back_, patience);
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
