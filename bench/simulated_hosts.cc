// The agent (SimulatedHost), then all of SimulatedHosts.
// Read SimulatedHost::handle first.
#include "bench/simulated_hosts.h"

#include <sys/socket.h>

#include <csignal>
#include <cstdint>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "agent/link/control_client.h"
#include "base/net.h"
#include "base/thread.h"
#include "proto/control_key.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::bench {
namespace {

constexpr int kMaxDialling = 64;  // as BootstrapOptions::max_parallel
constexpr int kFirstPid = 1'000;

// Each host has its own address, because rank 0's host must be one that the others could reach.
std::string host_address(int number) {
  return fmt::format("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, number & 255);
}

agent::ControlClientOptions client_options(const v1::AgentJoin& join) {
  agent::ControlClientOptions options;
  options.route = std::make_shared<agent::LauncherRoute>(base::IpAddress::parse("127.0.0.1").value());
  options.port = static_cast<std::uint16_t>(join.control_port());
  options.key = proto::control_key(join.job_id(), join.token());
  return options;
}

v1::Hello host_hello(const v1::AgentJoin& join) {
  v1::Hello hello;
  hello.set_job_id(join.job_id());
  hello.set_agent_index(join.agent_index());
  hello.set_hostname(join.host_name());
  hello.set_netns_inode(static_cast<std::uint64_t>(join.agent_index()) + 1);
  hello.set_containment("simulated");
  v1::NetworkInterface& interface = *hello.add_interfaces();
  interface.set_name("sim0");
  interface.set_address(host_address(join.agent_index()));
  return hello;
}

}  // namespace

struct SimulatedHosts::Waiting {
  std::string name;
  launcherd::JoinSource join;
  std::function<void(base::Result<launcherd::StartedAgent>)> done;
};

class SimulatedHost {
 public:
  SimulatedHost(SimulatedHosts& all, base::Loop& loop, const v1::AgentJoin& join, base::UniqueFd stdio)
      : all_(all),
        name_(join.host_name()),
        address_(host_address(join.agent_index())),
        stdio_(std::move(stdio)),
        client_(agent::ControlClient::start(loop, client_options(join), host_hello(join))) {
    client_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
    client_->on_cut = [](const agent::StreamEnd&) {};
    constexpr std::string_view kLinkLine = "MUSTER-LINK dial\n";
    if (::send(stdio_.get(), kLinkLine.data(), kLinkLine.size(), MSG_NOSIGNAL) < 0) stdio_.reset();
    if (!stdio_.valid()) return;
    // The agent sends nothing more, so the end of this connection is all that can be read.
    launcher_ = loop.on_readable(stdio_.get(), [this] { leave(); });
  }

  void fail_rank() {
    if (!ranks_.empty()) exit(*ranks_.begin(), 1 << 8);
  }

 private:
  // A message of a generation has the job's id if the launcher keeps the agent for the next one.
  void send(v1::AgentMessage message) {
    message.set_job_id(job_);
    client_->send(std::move(message));
  }

  void handle(const v1::LauncherMessage& message) {
    v1::AgentMessage answer;
    switch (message.body_case()) {
      case v1::LauncherMessage::kOpenJob:
        job_ = message.job_id();
        answer.mutable_job_opened()->set_containment("simulated");
        send(std::move(answer));
        break;
      case v1::LauncherMessage::kWelcome:
        if (!std::exchange(is_welcome_, true)) all_.welcomed();
        break;
      case v1::LauncherMessage::kPing:
        answer.mutable_pong()->set_launcher_ns(message.ping().launcher_ns());
        answer.mutable_pong()->set_agent_ns(message.ping().launcher_ns());
        answer.set_job_id(message.job_id());
        client_->send_unnumbered(std::move(answer));
        break;
      case v1::LauncherMessage::kPrepare:
        answer.mutable_prepared()->set_interface("sim0");
        answer.mutable_prepared()->set_address(address_);
        answer.mutable_prepared()->set_master_port(1);
        send(std::move(answer));
        break;
      case v1::LauncherMessage::kLaunch:
        launch(message.launch());
        break;
      case v1::LauncherMessage::kPrepareGeneration:
        answer.mutable_generation_prepared()->set_generation(message.prepare_generation().generation());
        answer.mutable_generation_prepared()->set_horovod_port(1);
        send(std::move(answer));
        break;
      default:
        handle_change(message);
        break;
    }
  }

  void handle_change(const v1::LauncherMessage& message) {
    v1::AgentMessage answer;
    switch (message.body_case()) {
      case v1::LauncherMessage::kRanksEnded:
        check_in();
        break;
      case v1::LauncherMessage::kBeginGeneration:
        has_checked_in_ = false;
        all_.began(message.begin_generation().generation());
        break;
      case v1::LauncherMessage::kStopRanks:
        for (const int rank : std::set(ranks_)) exit(rank, SIGTERM);
        break;
      case v1::LauncherMessage::kEndRanks:
        for (const int rank : message.end_ranks().ranks()) exit(rank, SIGTERM);
        break;
      case v1::LauncherMessage::kLeave:
        if (message.job_id().empty()) return leave();
        answer.mutable_job_closed();
        send(std::move(answer));
        break;
      default:
        break;
    }
  }

  void launch(const v1::Launch& launch) {
    for (const v1::LaunchRank& rank : launch.ranks()) {
      ranks_.insert(rank.rank());
      v1::AgentMessage started;
      started.mutable_rank_started()->set_rank(rank.rank());
      started.mutable_rank_started()->set_pid(kFirstPid + rank.rank());
      send(std::move(started));
    }
    v1::AgentMessage launched;
    launched.mutable_launched();
    send(std::move(launched));
    if (launch.live_members().empty()) return;
    v1::AgentMessage follow;
    follow.mutable_follow_ends()->set_wants_silent_ranks(true);
    send(std::move(follow));
  }

  // All ranks have seen that their collective failed.
  void check_in() {
    if (std::exchange(has_checked_in_, true)) return;
    for (const int number : ranks_) {
      v1::AgentMessage message;
      message.mutable_check_in()->set_number(number);
      send(std::move(message));
    }
  }

  void exit(int rank, int wait_status) {
    if (ranks_.erase(rank) == 0) return;
    v1::AgentMessage exited;
    exited.mutable_rank_exited()->set_rank(rank);
    exited.mutable_rank_exited()->set_pid(kFirstPid + rank);
    exited.mutable_rank_exited()->set_wait_status(wait_status);
    exited.mutable_rank_exited()->set_stopped_by_us(wait_status == SIGTERM);
    send(std::move(exited));
    if (!ranks_.empty()) return;
    v1::AgentMessage empty;
    empty.mutable_host_empty()->set_no_output(true);
    send(std::move(empty));
  }

  void leave() {
    launcher_.cancel();
    if (!std::exchange(has_left_, true)) all_.left(name_);
  }

  SimulatedHosts& all_;
  const std::string name_;
  const std::string address_;
  base::UniqueFd stdio_;
  base::Timer launcher_;
  std::string job_;  // empty if the launcher's messages do not name it
  bool is_welcome_ = false;
  bool has_left_ = false;
  bool has_checked_in_ = false;  // in this generation
  std::set<int> ranks_;          // that run; by their numbers, if the job is live
  std::unique_ptr<agent::ControlClient> client_;
};

SimulatedHosts::SimulatedHosts(Events events) : events_(std::move(events)) {}

base::Result<std::unique_ptr<SimulatedHosts>> SimulatedHosts::make(Events events) {
  std::unique_ptr<SimulatedHosts> hosts(new SimulatedHosts(std::move(events)));
  MUSTER_ASSIGN_OR_RETURN(hosts->thread_, base::start_thread([all = hosts.get()] {
                            all->loop_.run();
                            all->hosts_.clear();
                          }));
  return hosts;
}

SimulatedHosts::~SimulatedHosts() {
  loop_.stop();
  if (thread_.joinable()) thread_.join();
}

void SimulatedHosts::start(const launcherd::BootstrapTarget& target, launcherd::JoinSource join,
                           std::function<void(base::Result<launcherd::StartedAgent>)> done) {
  loop_.post([this, waiting = Waiting{target.name, std::move(join), std::move(done)}] {
    waiting_.push_back(waiting);
    start_waiting();
  });
}

void SimulatedHosts::start_waiting() {
  while (dialling_ < kMaxDialling && !waiting_.empty()) {
    const Waiting next = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
    const auto& frame = next.join.get();  // the launcher makes it soon after start()
    v1::AgentJoin join;
    auto pair = base::make_socketpair(SOCK_STREAM);
    if (!frame.ok() || !pair.ok() || !join.ParseFromString(frame->substr(sizeof(std::uint32_t)))) {
      next.done(base::error(base::Code::kInternal, "{}: the simulated agent did not start", next.name));
      continue;
    }
    launcherd::StartedAgent started;
    started.stream = std::move(pair->first);
    started.backend = "simulation";
    ++dialling_;
    hosts_[next.name] = std::make_unique<SimulatedHost>(*this, loop_, join, std::move(pair->second));
    next.done(std::move(started));
  }
}

void SimulatedHosts::welcomed() {
  --dialling_;
  start_waiting();
}

void SimulatedHosts::began(int generation) {
  if (generation < generation_) return;
  if (generation > generation_) answered_ = 0;
  generation_ = generation;
  ++answered_;
  if (answered_ == static_cast<int>(hosts_.size())) events_.on_answered(generation, Clock::now());
}

// The host is the caller, so it is destroyed later.
void SimulatedHosts::left(const std::string& name) {
  const auto found = hosts_.find(name);
  if (found == hosts_.end()) return;
  std::shared_ptr<SimulatedHost> gone = std::move(found->second);
  hosts_.erase(found);
  loop_.post([gone] {});
}

void SimulatedHosts::run(const launcherd::BootstrapTarget&, std::vector<std::string>,
                         std::function<void(base::Result<launcherd::CommandResult>)> done) {
  loop_.post([done = std::move(done)] { done(launcherd::CommandResult{}); });
}

void SimulatedHosts::kill_host(const std::string& name) {
  loop_.post([this, name] { left(name); });
}

void SimulatedHosts::fail_rank(const std::string& name) {
  loop_.post([this, name] {
    if (const auto found = hosts_.find(name); found != hosts_.end()) found->second->fail_rank();
  });
}

}  // namespace muster::bench
