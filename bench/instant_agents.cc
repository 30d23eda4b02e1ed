#include "bench/instant_agents.h"

#include <signal.h>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

namespace muster::bench {
namespace {

constexpr int kFirstPid = 1'000;

std::string address_of(int number) {
  return fmt::format("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
}

}  // namespace

base::Status InstantAgents::start(std::vector<launcherd::AgentHost> hosts, launcherd::OutputSink*,
                                  launcherd::AgentListener* listener) {
  listener_ = listener;
  for (launcherd::AgentHost& host : hosts) hosts_.push_back({.name = std::move(host.target.name), .ranks = {}});
  return base::ok_status();
}

void InstantAgents::connect() {
  for (int agent = 0; agent < static_cast<int>(hosts_.size()); ++agent) {
    loop_.post([weak = weak_from_this(), agent] {
      if (const auto self = weak.lock()) self->up(agent);
    });
  }
}

v1::Hello InstantAgents::hello_of(int agent) const {
  v1::Hello hello;
  hello.set_hostname(hosts_[static_cast<std::size_t>(agent)].name);
  hello.set_netns_inode(static_cast<std::uint64_t>(agent) + 1);
  hello.set_containment("simulated");
  hello.set_session_dir("/run/user/1000/muster/job");
  v1::NetworkInterface& interface = *hello.add_interfaces();
  interface.set_name("sim0");
  interface.set_address(address_of(agent));
  for (int core = 0; core < options_.cores; ++core) {
    v1::Core& to = *hello.add_cores();
    to.add_cpus(core);
    to.add_cpus(core + options_.cores);
  }
  return hello;
}

void InstantAgents::up(int agent) {
  listener_->agent_started(agent);
  listener_->agent_stream(agent, true);
  launcherd::AgentUp up;
  up.hello = hello_of(agent);
  up.link = "dial";
  listener_->agent_up(agent, std::move(up));
}

void InstantAgents::answer(int agent, std::vector<v1::AgentMessage> messages) {
  loop_.post([weak = weak_from_this(), agent, messages = std::move(messages)] {
    const auto self = weak.lock();
    for (const v1::AgentMessage& message : messages) {
      if (self != nullptr) self->listener_->agent_message(agent, message);
    }
  });
}

void InstantAgents::send(int agent, v1::LauncherMessage message) {
  v1::AgentMessage reply;
  if (message.has_prepare()) {
    reply.mutable_prepared()->set_interface("sim0");
    reply.mutable_prepared()->set_address(address_of(agent));
    reply.mutable_prepared()->set_master_port(1);
    answer(agent, {std::move(reply)});
  } else if (message.has_launch()) {
    const std::size_t bytes = message.ByteSizeLong();
    launch_bytes_ += bytes;
    largest_launch_ = std::max(largest_launch_, bytes);
    launch(agent, message.launch());
  } else if (message.has_stop_ranks()) {
    exit(agent, true);
  }
}

void InstantAgents::send_unnumbered(int agent, v1::LauncherMessage message) {
  if (!message.has_ping()) return;
  ++pings_;
  v1::AgentMessage reply;
  reply.mutable_pong()->set_launcher_ns(message.ping().launcher_ns());
  reply.mutable_pong()->set_agent_ns(message.ping().launcher_ns());
  answer(agent, {std::move(reply)});
}

void InstantAgents::launch(int agent, const v1::Launch& launch) {
  std::vector<v1::AgentMessage> messages;
  std::vector<int>& ranks = hosts_[static_cast<std::size_t>(agent)].ranks;
  if (options_.is_grouped) messages.emplace_back().mutable_ranks_started()->set_agent_ns(1);
  for (const v1::LaunchRank& rank : launch.ranks()) {
    ranks.push_back(rank.rank());
    if (options_.is_grouped) {
      messages.front().mutable_ranks_started()->add_ranks(rank.rank());
      messages.front().mutable_ranks_started()->add_pids(kFirstPid + rank.rank());
      continue;
    }
    v1::RankStarted& started = *messages.emplace_back().mutable_rank_started();
    started.set_rank(rank.rank());
    started.set_pid(kFirstPid + rank.rank());
  }
  messages.emplace_back().mutable_launched();
  answer(agent, std::move(messages));
}

void InstantAgents::exit(int agent, bool is_stopped) {
  std::vector<v1::AgentMessage> messages;
  const bool is_grouped = options_.is_grouped && !is_stopped;
  if (is_grouped) messages.emplace_back().mutable_ranks_exited()->set_agent_ns(1);
  for (const int rank : std::exchange(hosts_[static_cast<std::size_t>(agent)].ranks, {})) {
    if (is_grouped) {
      messages.front().mutable_ranks_exited()->add_ranks(rank);
      messages.front().mutable_ranks_exited()->add_pids(kFirstPid + rank);
      continue;
    }
    v1::RankExited& exited = *messages.emplace_back().mutable_rank_exited();
    exited.set_rank(rank);
    exited.set_pid(kFirstPid + rank);
    exited.set_pid_inside(kFirstPid + rank);
    exited.set_agent_ns(1);
    exited.set_stopped_by_us(is_stopped);
    if (is_stopped) exited.set_wait_status(SIGTERM);
  }
  messages.emplace_back().mutable_host_empty()->set_no_output(true);
  answer(agent, std::move(messages));
}

void InstantAgents::end_ranks() {
  for (int agent = 0; agent < static_cast<int>(hosts_.size()); ++agent) exit(agent, false);
}

void InstantAgents::sweep(int, std::function<void(base::Result<launcherd::CommandResult>)> done) {
  loop_.post([done = std::move(done)] { done(launcherd::CommandResult{}); });
}

}  // namespace muster::bench
