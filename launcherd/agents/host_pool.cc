// HostPool's core, which moves hosts from phase to phase, and HostPool at the end.
// Read it in this order: start, route_events, apply, act, the actions, probe, let_go.
#include "launcherd/agents/host_pool.h"

#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "base/net.h"
#include "launcherd/agents/pool_core.h"
#include "launcherd/agents/pooled_agents.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr int kPoolListenBacklog = 1024;
constexpr int kPortTries = 20;
constexpr std::chrono::milliseconds kPoolPingPeriod{500};
constexpr std::chrono::milliseconds kPoolSilentAfter{1'500};
// A cut agent that lives dials again within milliseconds. After this time, probe its host.
constexpr std::chrono::milliseconds kProbeAfter{300};
// Wait this long for an agent of the last launcherd, which waits up to 1 s between two attempts to dial. If the agent
// has no job, the pool cannot probe it, because it holds no lock.
constexpr std::chrono::milliseconds kAwaitFor{3'000};
constexpr std::chrono::milliseconds kAwaitForEach{10};  // per awaited agent, because all awaited agents connect at once
constexpr std::chrono::milliseconds kDismissal{2'000};
constexpr int kQuickProbes = 5;
constexpr std::chrono::milliseconds kSlowProbe{2'000};

v1::AgentState state_of(PooledHostPhase phase) {
  switch (phase) {
    case PooledHostPhase::kAbsent:
      return v1::AGENT_STATE_NONE;
    case PooledHostPhase::kStarting:
    case PooledHostPhase::kJoining:
    case PooledHostPhase::kUnwanted:
      return v1::AGENT_STATE_STARTING;
    case PooledHostPhase::kAwaited:
    case PooledHostPhase::kSilent:
    case PooledHostPhase::kCut:
      return v1::AGENT_STATE_SUSPECT;
    case PooledHostPhase::kConnected:
    case PooledHostPhase::kDismissed:
      return v1::AGENT_STATE_UP;
    case PooledHostPhase::kFailed:
      return v1::AGENT_STATE_FAILED;
  }
  return v1::AGENT_STATE_NONE;
}

}  // namespace

HostPool::Core::Core(base::Loop& loop, const base::Clock& clock, HostPoolOptions options, Bootstrap* bootstrap)
    : parts_(loop, clock, std::move(options), bootstrap),
      starts_(parts_),
      sessions_(parts_),
      instance_(base::random_hex(8)) {
  parts_.apply = [this](PoolHost& host, PooledHostEvent event, const std::string& why) { apply(host, event, why); };
}

base::Status HostPool::Core::start() {
  MUSTER_RETURN_IF_ERROR(parts_.file.load());
  MUSTER_RETURN_IF_ERROR(open_ports());
  route_events();
  await_agents();
  MUSTER_RETURN_IF_ERROR(parts_.file.save());
  tick_timer_ = parts_.loop.every(kPoolPingPeriod, [this] { tick(); });
  return base::ok_status();
}

// Opens the ports that the state file records. For a new pool, picks ports that a later launcherd can open again.
base::Status HostPool::Core::open_ports() {
  v1::PoolState& state = parts_.file.state();
  const bool is_new = state.control_port() == 0;
  std::vector<KnownAgent> agents;  // agents dial all the time, so the server must know them before it listens
  for (const v1::PoolAgent& agent : state.agents()) agents.push_back({agent.token(), agent.number()});
  base::Status status;
  for (int tries = 0; tries < (is_new ? kPortTries : 1); ++tries) {
    const int control_port = is_new ? base::port_to_keep() : state.control_port();
    const int output_port = is_new ? base::port_to_keep() : state.output_port();
    auto listening = base::listen_any(static_cast<std::uint16_t>(output_port), kPoolListenBacklog);
    auto control = ControlServer::start(parts_.loop, {.job_id = state.id(),
                                                      .launcher_instance = instance_,
                                                      .port = control_port,
                                                      .agents = agents,
                                                      .wants_load = true,
                                                      .on_line = parts_.options.on_line});
    status = listening.ok() ? control.status() : listening.status();
    if (!status.ok()) continue;
    state.set_control_port(control_port);
    state.set_output_port(output_port);
    parts_.control = std::move(*control);
    MUSTER_ASSIGN_OR_RETURN(hub_, OutputHub::start({}, std::move(*listening)));
    return base::ok_status();
  }
  return base::unavailable(
      "{}: agents of the last launcherd connect to these ports; end the program that uses them, or "
      "remove {} (what its agents still run then ends by itself)",
      status.message(), parts_.file.path());
}

void HostPool::Core::route_events() {
  parts_.control->on_hello = [this](int number, const v1::Hello& hello, bool resumed) {
    if (PoolHost* const host = parts_.roster.numbered(number)) on_hello(*host, hello, resumed);
  };
  parts_.control->on_message = [this](int number, const v1::AgentMessage& message) {
    if (PoolHost* const host = parts_.roster.numbered(number)) on_message(*host, message);
  };
  parts_.control->on_cut = [this](int number) {
    PoolHost* const host = parts_.roster.numbered(number);
    // Only a dismissed agent never comes back, and only then does this reason count. Other agents may reconnect.
    if (host != nullptr) apply(*host, PooledHostEvent::kCut, "launcherd dismissed it");
  };
  parts_.control->on_unreadable = [this](int number) {
    if (PoolHost* const host = parts_.roster.numbered(number)) apply(*host, PooledHostEvent::kUnreadable);
  };
}

void HostPool::Core::await_agents() {
  v1::PoolState& state = parts_.file.state();
  int number = 0;  // the control server gives known agents the numbers 0, 1, 2, …
  for (const v1::PoolAgent& agent : state.agents()) {
    PoolHost& host = parts_.roster.at({.name = agent.name(), .user = agent.user(), .port = agent.port()});
    parts_.roster.add_agent(host, agent.token(), number++, agent.number());
    apply(host, PooledHostEvent::kRemember);
    host.last_heard = parts_.clock.now();
    if (const auto address = base::IpAddress::parse(agent.host_address()); address.ok()) {
      host.up.host_address = *address;
    }
    for (const std::string& text : agent.launcher_addresses()) {
      if (const auto address = base::IpAddress::parse(text); address.ok()) {
        host.up.launcher_addresses.push_back(*address);
      }
    }
    probe_later(host, kAwaitFor + kAwaitForEach * state.agents_size());
  }
  state.clear_agents();
}

void HostPool::Core::apply(PoolHost& host, PooledHostEvent event, const std::string& why) {
  const auto step = next_step(host.phase, event);
  if (!step) return;
  const bool had_to_end = must_end(host.phase);
  host.phase = step->to;
  host.phase_gate.reset();
  if (host.phase != PooledHostPhase::kUnwanted) host.timer.cancel();
  act(host, step->action, why);
  if (had_to_end && !must_any_end()) report_end();
}

void HostPool::Core::act(PoolHost& host, PooledHostAction action, const std::string& why) {
  switch (action) {
    case PooledHostAction::kNone:
      return;
    case PooledHostAction::kShow:
      return parts_.report_change(host);
    case PooledHostAction::kBootstrap:
      return starts_.start(host);
    case PooledHostAction::kAwaitReport:
      return starts_.await_report(host);
    case PooledHostAction::kAwaitLastReport:
      return starts_.await_last_report(host, why);
    case PooledHostAction::kRetryLater:
      return start_failed(host, why);
    case PooledHostAction::kAwaitReturn:
      return probe_later(host, ++host.probes < kQuickProbes ? base::Duration(kProbeAfter) : base::Duration(kSlowProbe));
    case PooledHostAction::kOpenJobs:
      return agent_up(host);
    case PooledHostAction::kContinueJobs:
      parts_.note(fmt::format("{}: the control connection is back", host.target.name));
      return sessions_.stream(host, true);
    case PooledHostAction::kSuspendJobs:
      host.cut_at = parts_.clock.now();
      sessions_.stream(host, false);
      probe_later(host, kProbeAfter);
      return parts_.report_change(host);
    case PooledHostAction::kLoseAgent:
      return lose_agent(host, why);
    case PooledHostAction::kDropAgent:
      return drop_agent(host);
    case PooledHostAction::kDismiss:
      return dismiss(host);
  }
}

void HostPool::Core::on_hello(PoolHost& host, const v1::Hello& hello, bool resumed) {
  host.last_heard = parts_.clock.now();
  host.probes = 0;
  parts_.relays.joined(host.number);
  if (hello.relay_port() != 0) parts_.relays.relay_up(host.number, relay_of(hello));
  if (!resumed) host.up.hello = hello;
  apply(host, resumed ? PooledHostEvent::kReturn : PooledHostEvent::kHello);
}

void HostPool::Core::on_message(PoolHost& host, const v1::AgentMessage& message) {
  host.last_heard = parts_.clock.now();
  apply(host, PooledHostEvent::kHear);
  sessions_.message(host, message);
}

void HostPool::Core::agent_up(PoolHost& host) {
  host.is_requested = false;
  host.failures = 0;
  host.problem.clear();
  host.up.link = "dial";
  parts_.note(fmt::format("{}: agent up, holding {} jobs", host.target.name, host.up.hello.held_jobs_size()));
  sessions_.resume(host);
  parts_.report_change(host);
}

void HostPool::Core::forget_agent(PoolHost& host) {
  if (host.number >= 0) {
    const int number = parts_.roster.remove_agent(host);
    parts_.control->forget(number);
    parts_.relays.lost(number);
    starts_.cancel(number);
  }
  host.link.reset();
}

void HostPool::Core::start_failed(PoolHost& host, const std::string& message) {
  forget_agent(host);
  host.problem = message;
  if (parts_.is_ending) return;
  starts_.retry_later(host);
  sessions_.fail(host, message);
  parts_.report_change(host);
}

void HostPool::Core::lose_agent(PoolHost& host, const std::string& why) {
  forget_agent(host);
  host.load.reset();
  host.unstored.clear();
  host.closing.clear();
  parts_.note(fmt::format("{}: the agent is gone: {}", host.target.name, why));
  parts_.save_soon();
  sessions_.lose(host, why);
  if (host.is_requested) apply(host, PooledHostEvent::kStart);  // ignored if a job has already started an agent
  parts_.report_change(host);
}

// Drops the agent, because an unreadable message blocks all later messages, of all jobs on this agent.
void HostPool::Core::drop_agent(PoolHost& host) {
  const auto sessions = std::exchange(host.sessions, {});
  lose_agent(host,
             "a message on its control connection is unreadable, even when it is sent again, so launcherd dropped the "
             "agent");
  for (const auto& [job, session] : sessions) session.owner->pool_unreadable(session.agent);
}

void HostPool::Core::dismiss(PoolHost& host) {
  if (!host.unstored.empty()) return;
  v1::LauncherMessage message;
  message.mutable_leave();
  parts_.control->send(host.number, std::move(message));
}

void HostPool::Core::probe_later(PoolHost& host, base::Duration after) {
  host.timer = parts_.loop.after(after, [this, &host] { probe(host); });
}

// Probes whether an agent without a stream lives. An agent that holds a job also holds the lock of the job's session.
void HostPool::Core::probe(PoolHost& host) {
  const auto held = std::ranges::find_if(
      host.sessions, [](const auto& entry) { return entry.second.resumes || entry.second.is_held(); });
  if (held == host.sessions.end()) {
    const base::Duration patience = host.cut_at + kAwaitFor - parts_.clock.now();
    if (patience > base::Duration::zero()) return probe_later(host, patience);
    return apply(host, PooledHostEvent::kFindGone, "its connection was closed");
  }
  sessions_.sweep(
      host.target, held->first,
      host.phase_gate.wrap([this, &host](const base::Result<CommandResult>& result) { probed(host, result); }));
}

void HostPool::Core::probed(PoolHost& host, const base::Result<CommandResult>& result) {
  if (result.ok() && result->exit_status == 0) {
    return apply(host, PooledHostEvent::kFindGone, "launcherd searched the host and found no process of the agent");
  }
  apply(host, PooledHostEvent::kFindAlive);
}

void HostPool::Core::ask(const AgentHost& requested) {
  PoolHost& host = parts_.roster.at(requested.target);
  if (has_joined(host.phase)) return parts_.report_change(host);
  host.is_local = requested.is_local;
  host.is_requested = true;
  // Start nothing in other phases. A timer retries a failed agent. An awaited agent connects, or a probe finds it gone.
  if (host.phase == PooledHostPhase::kAbsent) apply(host, PooledHostEvent::kStart);
}

void HostPool::Core::let_go(base::Loop::Task done) {
  parts_.is_ending = true;
  parts_.bootstrap->cancel();
  starts_.cancel_all();
  for (const auto& [key, host] : parts_.roster) {
    if (host->phase == PooledHostPhase::kFailed) host->timer.cancel();
    if (host->sessions.empty()) apply(*host, PooledHostEvent::kEndLauncher);
  }
  ended_ = std::move(done);
  end_timer_ = parts_.loop.after(kDismissal, [this] { report_end(); });
  if (!must_any_end()) parts_.loop.post(gate_.wrap([this] { report_end(); }));
}

bool HostPool::Core::must_any_end() const {
  return std::ranges::any_of(parts_.roster, [](const auto& entry) { return must_end(entry.second->phase); });
}

void HostPool::Core::report_end() {
  end_timer_.cancel();
  if (const base::Status saved = parts_.file.save_if_due(); !saved.ok()) parts_.note(saved.message());
  if (ended_) std::exchange(ended_, nullptr)();
}

void HostPool::Core::tick() {
  const base::MonotonicTime now = parts_.clock.now();
  meters_.sample(parts_.roster, now);
  ping_turns_.next(parts_.roster.size(), parts_.options.lease / kPoolPingPeriod);
  const base::Duration silent_after = kPoolSilentAfter + kPoolPingPeriod * (ping_turns_.count() - 1);
  std::size_t index = 0;
  for (const auto& [key, host] : parts_.roster) {
    const bool is_due = ping_turns_.is_due(index++);
    if (!has_stream(host->phase)) continue;
    if (is_due) {
      v1::LauncherMessage message;
      message.mutable_ping()->set_launcher_ns(
          std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
      parts_.control->send_unnumbered(host->number, std::move(message));
    }
    if (now - host->last_heard > silent_after) apply(*host, PooledHostEvent::kSilence);
  }
}

PoolHostView HostPool::Core::view(const BootstrapTarget& target) const {
  PoolHostView view;
  const PoolHost* const host = parts_.roster.find(target);
  if (host == nullptr) return view;
  view.hello = host->up.hello;
  view.problem = host->problem;
  view.jobs = static_cast<int>(host->sessions.size() + host->closing.size());
  view.output_bytes = host->output->bytes.load(std::memory_order_relaxed);
  if (has_joined(host->phase)) {
    view.load = host->load;
    view.output_rate = host->output->rate.per_second();
  }
  view.state = state_of(host->phase);
  return view;
}

v1::AgentState HostPool::Core::state(const BootstrapTarget& target) const {
  const PoolHost* const host = parts_.roster.find(target);
  return host == nullptr ? v1::AGENT_STATE_NONE : state_of(host->phase);
}

std::uint64_t HostPool::Core::output_bytes(const BootstrapTarget& target) const {
  const PoolHost* const host = parts_.roster.find(target);
  return host == nullptr ? 0 : host->output->bytes.load(std::memory_order_relaxed);
}

base::Result<std::unique_ptr<HostPool>> HostPool::start(base::Loop& loop, const base::Clock& clock,
                                                        HostPoolOptions options, Bootstrap* bootstrap) {
  auto core = std::make_unique<Core>(loop, clock, std::move(options), bootstrap);
  MUSTER_RETURN_IF_ERROR(core->start());
  return std::unique_ptr<HostPool>(new HostPool(std::move(core)));
}

HostPool::HostPool(std::unique_ptr<Core> core) : core_(std::move(core)) {}
HostPool::~HostPool() = default;

std::shared_ptr<JobAgents> HostPool::agents_for(PooledJob job) {
  return std::make_shared<PooledAgents>(*core_, std::move(job));
}

void HostPool::ask(const AgentHost& host) {
  core_->ask(host);
}

PoolHostView HostPool::view(const BootstrapTarget& target) const {
  return core_->view(target);
}

std::optional<std::int64_t> HostPool::output_rate(const std::string& job) const {
  return core_->output_rate(job);
}

v1::AgentState HostPool::state(const BootstrapTarget& target) const {
  return core_->state(target);
}

std::uint64_t HostPool::output_bytes(const BootstrapTarget& target) const {
  return core_->output_bytes(target);
}

void HostPool::forget_other_jobs() {
  core_->sessions().forget_others();
}

void HostPool::let_go(base::Loop::Task done) {
  core_->let_go(std::move(done));
}

int HostPool::control_port() const {
  return core_->control_port();
}

std::size_t HostPool::agents() const {
  return core_->agents();
}

}  // namespace muster::launcherd::agents
