// The part of HostPool's core for its services, its state file, and agents that are up, cut and lost. HostPool is at
// the end.
// Read it in this order: start, load_state, open_services, said_hello, was_cut, look, agent_lost, let_go.
#include "launcherd/agents/host_pool.h"

#include <algorithm>
#include <utility>

#include "base/file.h"
#include "base/ids.h"
#include "base/net.h"
#include "launcherd/agents/pool_core.h"
#include "launcherd/agents/pooled_agents.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr int kPoolListenBacklog = 1024;
constexpr int kPortTries = 20;
constexpr std::chrono::milliseconds kPoolPingPeriod{500};
constexpr std::chrono::milliseconds kPoolSuspectAfter{1'500};
// A cut agent that lives dials again within milliseconds. After this time, probe its host.
constexpr std::chrono::milliseconds kLookAfter{300};
// An agent of the last launcherd waits up to 1 s between two attempts to dial. If it has no job, only wait for it:
// nothing on its host shows whether it lives.
constexpr std::chrono::milliseconds kAwaitFor{3'000};
constexpr std::chrono::milliseconds kAwaitForEach{10};  // for each awaited agent, because all of them connect at once
constexpr std::chrono::milliseconds kDismissal{2'000};
constexpr int kQuickLooks = 5;
constexpr std::chrono::milliseconds kSlowLook{2'000};

std::string key_of(const BootstrapTarget& target) {
  return fmt::format("{}@{}:{}", target.user, target.name, target.port);
}

}  // namespace

HostPool::Core::Core(base::Loop& loop, const base::Clock& clock, HostPoolOptions options, Bootstrap* bootstrap)
    : loop_(loop), clock_(clock), options_(std::move(options)), bootstrap_(bootstrap), instance_(base::random_hex(8)) {}

HostPool::Core::~Core() = default;

base::Status HostPool::Core::start() {
  MUSTER_RETURN_IF_ERROR(load_state());
  MUSTER_RETURN_IF_ERROR(open_services());
  await_agents();
  MUSTER_RETURN_IF_ERROR(save_state());
  tick_timer_ = loop_.every(kPoolPingPeriod, [this] { tick(); });
  return base::ok_status();
}

base::Status HostPool::Core::load_state() {
  const auto content = base::read_file(options_.state_file);
  if (content.ok()) {
    if (state_.ParseFromString(*content) && !state_.id().empty()) {
      auto keys = LinkKeys::load(state_);
      // If the certificates have expired, make new ones. No agent has a link with expired ones, nor had one for a lease
      // or longer.
      if (keys.ok() && keys->is_over(clock_.wall())) return make_keys();
      if (keys.ok()) {
        keys_ = *std::move(keys);
        return base::ok_status();
      }
    }
    return base::error(
        base::Code::kDataLoss,
        "{} is not the list of agents that launcherd wrote: remove it (agents that still run then end by "
        "themselves), and start again",
        options_.state_file);
  }
  if (content.status().code() != base::Code::kNotFound) return content.status();
  state_.set_id(base::JobId::random().str());
  return make_keys();
}

base::Status HostPool::Core::make_keys() {
  MUSTER_ASSIGN_OR_RETURN(keys_, LinkKeys::create(state_.id()));
  return base::ok_status();
}

// Opens the ports that agents know. For a new pool it opens ports that a later launcherd can open again.
base::Status HostPool::Core::open_ports() {
  const bool is_new = state_.control_port() == 0;
  std::vector<KnownAgent> agents;  // agents dial all the time, so the server must know them before it listens
  for (const v1::PoolAgent& agent : state_.agents()) agents.push_back({agent.token(), agent.number()});
  base::Status status;
  for (int tries = 0; tries < (is_new ? kPortTries : 1); ++tries) {
    const int control_port = is_new ? base::port_to_keep() : state_.control_port();
    const int output_port = is_new ? base::port_to_keep() : state_.output_port();
    auto listening = base::listen_any(static_cast<std::uint16_t>(output_port), kPoolListenBacklog);
    auto control = ControlServer::start(loop_, {.job_id = state_.id(),
                                                .launcher_instance = instance_,
                                                .ca_pem = keys_->trusted_pem(),
                                                .certificate_pem = keys_->own().cert_pem,
                                                .key_pem = keys_->own().key_pem,
                                                .port = control_port,
                                                .agents = agents,
                                                .wants_load = true,
                                                .on_line = options_.on_line,
                                                .on_grpc_error = options_.on_line});
    status = listening.ok() ? control.status() : listening.status();
    if (!status.ok()) continue;
    state_.set_control_port(control_port);
    state_.set_output_port(output_port);
    control_ = std::move(*control);
    MUSTER_ASSIGN_OR_RETURN(hub_, OutputHub::start({}, std::move(*listening)));
    return base::ok_status();
  }
  return base::error(base::Code::kUnavailable,
                     "{}: agents of the launcherd before would come there; end what uses it, or remove {} (what its "
                     "agents still run then ends by itself)",
                     status.message(), options_.state_file);
}

base::Status HostPool::Core::open_services() {
  MUSTER_RETURN_IF_ERROR(open_ports());
  control_->on_hello = [this](int number, const v1::Hello& hello, bool resumed) {
    if (PoolHost* const host = host_numbered(number)) said_hello(*host, hello, resumed);
  };
  control_->on_message = [this](int number, const v1::AgentMessage& message) {
    PoolHost* const host = host_numbered(number);
    if (host == nullptr) return;
    host->last_heard = clock_.now();
    if (std::exchange(host->is_suspect, false)) changed(*host);
    said(*host, message);
  };
  control_->on_cut = [this](int number) {
    if (PoolHost* const host = host_numbered(number)) was_cut(*host);
  };
  control_->on_unreadable = [this](int number) {
    if (PoolHost* const host = host_numbered(number)) give_up(*host);
  };
  return base::ok_status();
}

void HostPool::Core::await_agents() {
  for (const v1::PoolAgent& agent : state_.agents()) {
    PoolHost& host = host_at({.name = agent.name(), .user = agent.user(), .port = agent.port()});
    number_agent(host, agent.token(), static_cast<int>(by_number_.size()), agent.number());
    host.phase = PoolHost::Phase::kAwaited;
    host.last_heard = clock_.now();
    if (const auto address = base::IpAddress::parse(agent.host_address()); address.ok()) {
      host.up.host_address = *address;
    }
    for (const std::string& text : agent.launcher_addresses()) {
      if (const auto address = base::IpAddress::parse(text); address.ok()) {
        host.up.launcher_addresses.push_back(*address);
      }
    }
    look_later(host, kAwaitFor + kAwaitForEach * state_.agents_size());
  }
  state_.clear_agents();
}

base::Status HostPool::Core::save_state() {
  is_save_due_ = false;
  v1::PoolState state = state_;
  keys_->store(state);
  for (const auto& [key, host] : hosts_) {
    if (host->number < 0) continue;
    v1::PoolAgent& agent = *state.add_agents();
    agent.set_user(host->target.user);
    agent.set_name(host->target.name);
    agent.set_port(host->target.port);
    agent.set_token(host->token);
    agent.set_number(host->hello_number);
    if (host->up.host_address) agent.set_host_address(host->up.host_address->str());
    for (const base::IpAddress& address : host->up.launcher_addresses) agent.add_launcher_addresses(address.str());
  }
  return base::write_file_durably(options_.state_file, state.SerializeAsString());
}

// Saves once for all changes of this turn of the loop, because the file lists every agent.
void HostPool::Core::save_soon() {
  if (std::exchange(is_save_due_, true)) return;
  loop_.post([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr || !std::exchange(self->is_save_due_, false)) return;
    if (const base::Status saved = self->save_state(); !saved.ok()) self->note(saved.message());
  });
}

PoolHost& HostPool::Core::host_at(const BootstrapTarget& target) {
  std::unique_ptr<PoolHost>& host = hosts_[key_of(target)];
  if (host == nullptr) {
    host = std::make_unique<PoolHost>();
    host->target = target;
  }
  return *host;
}

PoolHost* HostPool::Core::host_numbered(int number) const {
  const auto found = by_number_.find(number);
  // the host has another agent since then
  if (found == by_number_.end() || found->second->number != number) return nullptr;
  return found->second;
}

void HostPool::Core::number_agent(PoolHost& host, const std::string& token, int number, int hello_number) {
  host.token = token;
  host.number = number;
  host.hello_number = hello_number;
  MUSTER_CHECK(by_number_.emplace(number, &host).second);
}

void HostPool::Core::forget_agent(PoolHost& host) {
  control_->forget(host.number);
  by_number_.erase(std::exchange(host.number, -1));
}

void HostPool::Core::said_hello(PoolHost& host, const v1::Hello& hello, bool resumed) {
  host.last_heard = clock_.now();
  host.has_stream = true;
  host.is_suspect = false;
  host.looks = 0;
  host.look_timer.cancel();
  if (host.is_dismissed) {
    if (host.unstored.empty()) dismiss(host);
    return;
  }
  if (resumed) {
    note(fmt::format("{}: the control connection is back", host.target.name));
    for (auto& [job, session] : host.sessions) session.owner->pool_stream(session.agent, true);
    return;
  }
  host.phase = PoolHost::Phase::kUp;
  host.is_asked = false;
  host.failures = 0;
  host.problem.clear();
  host.up.hello = hello;
  host.up.link = "dial";
  note(fmt::format("{}: agent up, holding {} jobs", host.target.name, hello.held_jobs_size()));
  offer_keys(host);
  take_up_sessions(host, hello);
  changed(host);
}

void HostPool::Core::was_cut(PoolHost& host) {
  host.has_stream = false;
  host.cut_at = clock_.now();
  if (std::exchange(host.is_dismissed, false)) {
    agent_lost(host, "it was dismissed");
    if (!is_any_dismissed()) tell_gone();
    return;
  }
  for (auto& [job, session] : host.sessions) session.owner->pool_stream(session.agent, false);
  look_later(host, kLookAfter);
  changed(host);
}

// Gives up an agent that has sent, or was sent, an unreadable message. This message blocks all later ones, of all jobs.
void HostPool::Core::give_up(PoolHost& host) {
  const bool was_dismissed = std::exchange(host.is_dismissed, false);
  const auto sessions = std::exchange(host.sessions, {});
  agent_lost(host, "a message on its control connection cannot be read, also when it is sent again; it was given up");
  for (const auto& [job, session] : sessions) session.owner->pool_unreadable(session.agent);
  if (was_dismissed && !is_any_dismissed()) tell_gone();
}

void HostPool::Core::look_later(PoolHost& host, base::Duration after) {
  host.look_timer = loop_.after(after, [this, &host] { look(host); });
}

// Probes whether an agent without a stream lives. On its host the lock of a job that it holds shows that.
void HostPool::Core::look(PoolHost& host) {
  if (host.has_stream || host.is_looked_at || host.number < 0) return;
  const auto held = std::ranges::find_if(host.sessions, [](const auto& entry) {
    return entry.second.resumes || entry.second.phase == PoolSession::Phase::kOpen ||
           entry.second.phase == PoolSession::Phase::kRecalling;
  });
  if (held == host.sessions.end()) {
    const base::Duration patience = host.cut_at + kAwaitFor - clock_.now();
    if (patience > base::Duration::zero()) return look_later(host, patience);
    return agent_lost(host, "its connection was closed");
  }
  host.is_looked_at = true;
  sweep(host.target, held->first, [this, &host](const base::Result<CommandResult>& result) {
    host.is_looked_at = false;
    looked(host, result);
  });
}

void HostPool::Core::looked(PoolHost& host, const base::Result<CommandResult>& result) {
  if (host.has_stream || host.number < 0) return;
  if (result.ok() && result->exit_status == 0) {
    agent_lost(host, "it was looked for, and nothing of it lives");
    return;
  }
  look_later(host, ++host.looks < kQuickLooks ? base::Duration(kLookAfter) : base::Duration(kSlowLook));
}

void HostPool::Core::agent_lost(PoolHost& host, const std::string& why) {
  forget_agent(host);
  host.look_timer.cancel();
  host.link.reset();
  host.has_stream = false;
  host.phase = PoolHost::Phase::kNone;
  host.load.reset();
  host.unstored.clear();
  host.closing.clear();
  note(fmt::format("{}: the agent is gone: {}", host.target.name, why));
  save_soon();
  lose_sessions(host, why);
  if (host.is_asked && host.number < 0) start_agent(host);
  changed(host);
}

void HostPool::Core::let_go(base::Loop::Task done) {
  lets_go_ = true;
  bootstrap_->cancel();
  for (const auto& [key, host] : hosts_) {
    host->retry_timer.cancel();
    const bool is_coming = host->phase == PoolHost::Phase::kStarting || host->phase == PoolHost::Phase::kJoining;
    if (!host->sessions.empty() || !(host->has_stream || is_coming)) continue;
    host->is_dismissed = true;
    if (host->has_stream && host->unstored.empty()) dismiss(*host);
  }
  gone_ = std::move(done);
  gone_timer_ = loop_.after(kDismissal, [this] { tell_gone(); });
  if (is_any_dismissed()) return;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->tell_gone();
  });
}

void HostPool::Core::dismiss(PoolHost& host) {
  v1::LauncherMessage message;
  message.mutable_leave();
  control_->send(host.number, std::move(message));
}

bool HostPool::Core::is_any_dismissed() const {
  return std::ranges::any_of(hosts_, [](const auto& entry) { return entry.second->is_dismissed; });
}

void HostPool::Core::tell_gone() {
  gone_timer_.cancel();
  if (is_save_due_) {
    if (const base::Status saved = save_state(); !saved.ok()) note(saved.message());
  }
  if (gone_) std::exchange(gone_, nullptr)();
}

void HostPool::Core::tick() {
  const base::MonotonicTime now = clock_.now();
  sample_output(now);
  renew_keys(now);
  ping_turns_.next(hosts_.size());
  const base::Duration suspect_after = kPoolSuspectAfter + kPoolPingPeriod * (ping_turns_.count() - 1);
  std::size_t index = 0;
  for (const auto& [key, host] : hosts_) {
    const bool is_due = ping_turns_.is_due(index++);
    if (!host->has_stream) continue;
    if (is_due) {
      v1::LauncherMessage message;
      message.mutable_ping()->set_launcher_ns(
          std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count());
      control_->send_unnumbered(host->number, std::move(message));
    }
    if (now - host->last_heard > suspect_after && !std::exchange(host->is_suspect, true)) changed(*host);
  }
}

void HostPool::Core::sample_output(base::MonotonicTime now) {
  for (const auto& [key, host] : hosts_) host->output->sample(now);
  std::erase_if(job_meters_, [](const auto& entry) { return entry.second.expired(); });
  for (const auto& [job, weak] : job_meters_) {
    if (const auto meter = weak.lock()) meter->sample(now);
  }
}

std::shared_ptr<OutputMeter> HostPool::Core::job_meter(const std::string& job) {
  std::weak_ptr<OutputMeter>& known = job_meters_[job];
  auto meter = known.lock();  // an attempt of the job that is just ending may have one
  if (meter == nullptr) {
    meter = std::make_shared<OutputMeter>();
    meter->sample(clock_.now());
    known = meter;
  }
  return meter;
}

std::optional<std::int64_t> HostPool::Core::output_rate(const std::string& job) const {
  const auto found = job_meters_.find(job);
  const auto meter = found == job_meters_.end() ? nullptr : found->second.lock();
  if (meter == nullptr) return std::nullopt;
  return meter->rate.per_second();
}

void HostPool::Core::changed(const PoolHost& host) {
  if (options_.on_change) options_.on_change(host.target);
}

void HostPool::Core::note(const std::string& line) {
  if (options_.on_note) options_.on_note(line);
}

PoolHostView HostPool::Core::view(const BootstrapTarget& target) const {
  PoolHostView view;
  const auto found = hosts_.find(key_of(target));
  if (found == hosts_.end()) return view;
  const PoolHost& host = *found->second;
  view.hello = host.up.hello;
  view.problem = host.problem;
  view.jobs = static_cast<int>(host.sessions.size() + host.closing.size());
  view.output_bytes = host.output->bytes.load(std::memory_order_relaxed);
  if (host.phase == PoolHost::Phase::kUp) {
    view.load = host.load;
    view.output_rate = host.output->rate.per_second();
  }
  view.state = state(target);
  return view;
}

v1::AgentState HostPool::Core::state(const BootstrapTarget& target) const {
  const auto found = hosts_.find(key_of(target));
  if (found == hosts_.end()) return v1::AGENT_STATE_NONE;
  const PoolHost& host = *found->second;
  switch (host.phase) {
    case PoolHost::Phase::kNone:
      break;
    case PoolHost::Phase::kStarting:
    case PoolHost::Phase::kJoining:
      return v1::AGENT_STATE_STARTING;
    case PoolHost::Phase::kAwaited:
      return v1::AGENT_STATE_SUSPECT;
    case PoolHost::Phase::kUp:
      return host.has_stream && !host.is_suspect ? v1::AGENT_STATE_UP : v1::AGENT_STATE_SUSPECT;
    case PoolHost::Phase::kFailed:
      return v1::AGENT_STATE_FAILED;
  }
  return v1::AGENT_STATE_NONE;
}

base::Result<std::unique_ptr<HostPool>> HostPool::start(base::Loop& loop, const base::Clock& clock,
                                                        HostPoolOptions options, Bootstrap* bootstrap) {
  auto core = std::make_shared<Core>(loop, clock, std::move(options), bootstrap);
  MUSTER_RETURN_IF_ERROR(core->start());
  return std::unique_ptr<HostPool>(new HostPool(std::move(core)));
}

HostPool::HostPool(std::shared_ptr<Core> core) : core_(std::move(core)) {}
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

void HostPool::forget_other_jobs() {
  core_->forget_other_jobs();
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
