// All of OwnAgents, and two functions that the pool's agents share with it.
// Read it in this order: start, open_services, make_join, bootstrapped, linked, on_hello; then the functions that jobs
// call; then begin_generation, end_generation and job_order.
#include "launcherd/agents/own_agents.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/ids.h"
#include "base/net.h"
#include "proto/agent_join.h"
#include "proto/frame.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr int kListenBacklog = 1024;
constexpr int kMaxDialAddresses = 8;

}  // namespace

void add_launcher_addresses(bool is_local, v1::AgentJoin& join) {
  if (is_local) {
    join.add_launcher_addresses("127.0.0.1");
    join.add_launcher_addresses("::1");
    return;
  }
  const auto own = base::interface_addresses();
  if (!own.ok()) return;
  // The agent first tries the address that its sshd saw. It tries these addresses next, because the launcher may be
  // multi-homed.
  for (const base::InterfaceAddress& entry : *own) {
    if (entry.address.is_loopback() || join.launcher_addresses_size() >= kMaxDialAddresses) continue;
    join.add_launcher_addresses(entry.address.str());
  }
}

std::vector<std::string> sweep_arguments(const std::string& job_id, const std::string& session_root) {
  std::vector<std::string> arguments = {"--sweep", job_id};
  if (!session_root.empty()) {
    arguments.emplace_back("--session-root");
    arguments.push_back(session_root);
  }
  return arguments;
}

OwnAgents::OwnAgents(base::Loop& loop, OwnAgentsOptions options, Bootstrap* bootstrap)

    : loop_(loop),
      options_(std::move(options)),
      bootstrap_(bootstrap),
      // Agents over ssh do not connect to anything.
      relays_(loop, options_.agent_link == "ssh" ? 0 : options_.fanout, options_.start_timeout / 2) {}

base::Status OwnAgents::start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) {
  listener_ = listener;
  sink->begin_attempt(options_.attempt);
  for (AgentHost& host : hosts) add_host(std::move(host));
  std::vector<int> agents(hosts_.size());
  std::iota(agents.begin(), agents.end(), 0);
  // Begin the log-ins first, because they take longest. The joins are ready when the log-ins are through.
  begin_starts(agents);
  const base::Status opened = open_services(sink);
  for (const int agent : agents) {
    if (opened.ok()) {
      place(agent);
    } else {
      settle_join(agent, opened);
    }
  }
  return opened;
}

OwnAgents::~OwnAgents() {
  // A thread of the bootstrap may wait for a join whose relay has not come up.
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    settle_join(static_cast<int>(i), base::cancelled("the start was ended"));
  }
}

// Relays start first, because others wait for them.
void OwnAgents::begin_starts(const std::vector<int>& agents) {
  for (const int agent : relays_.begin(agents)) at(agent).serves_relay = true;
  std::vector<int> order = agents;
  std::stable_sort(order.begin(), order.end(),
                   [this](int a, int b) { return at(a).serves_relay && !at(b).serves_relay; });
  std::vector<BootstrapTarget> targets;
  for (const int agent : order) targets.push_back(at(agent).host.target);
  bootstrap_->expect(targets);
  for (const int agent : order) start_agent(agent, at(agent).join.get_future().share());
}

void OwnAgents::place(int agent) {
  relays_.place(agent, [this, agent](const std::optional<v1::Relay>& parent) {
    if (parent) {
      const Host& relay = at(relays_.parent_of(agent));
      listener_->note(fmt::format("{}: connects through {}", at(agent).host.target.name, relay.host.target.name));
    }
    settle_join(agent, make_join(agent, parent));
  });
}

void OwnAgents::settle_join(int agent, base::Result<std::string> join) {
  Host& host = at(agent);
  if (!std::exchange(host.has_join, true)) host.join.set_value(std::move(join));
}

void OwnAgents::add_host(AgentHost host) {
  Host& entry = hosts_.emplace_back();
  entry.host = std::move(host);
  entry.token = base::random_hex(32);
  entry.output_secret = entry.token;
}

base::Status OwnAgents::add(AgentHost host) {
  add_host(std::move(host));
  control_->add_agent(hosts_.back().token);
  return base::ok_status();
}

void OwnAgents::start_added(const std::vector<int>& agents) {
  begin_starts(agents);
  for (const int agent : agents) place(agent);
}

void OwnAgents::begin_generation(int attempt, Bootstrap* bootstrap, OutputSink* sink) {
  options_.attempt = attempt;
  bootstrap_ = bootstrap;
  sink->begin_attempt(attempt);
  add_output(sink);
}

void OwnAgents::end_generation() {
  if (hub_ != nullptr) hub_->remove_job(options_.job_id);
}

v1::OpenJob OwnAgents::job_order(int agent) {
  Host& host = at(agent);
  host.output_secret = base::random_hex(32);
  v1::OpenJob order;
  order.set_attempt(options_.attempt);
  order.set_agent_index(agent);
  order.set_contain(options_.contain);
  order.set_session_root(options_.session_root);
  order.set_lease_ms(options_.lease.count());
  order.set_output_token(host.output_secret);
  order.set_output_port(output_port_);
  return order;
}

base::Status OwnAgents::open_services(OutputSink* sink) {
  MUSTER_ASSIGN_OR_RETURN(
      control_, ControlServer::start(loop_, {.job_id = options_.job_id,
                                             .wants_load = options_.wants_load,
                                             .on_line = [this](const std::string& line) { listener_->warn(line); }}));
  for (const Host& host : hosts_) control_->add_agent(host.token);
  control_->on_hello = [this](int agent, const v1::Hello& hello, bool resumed) { on_hello(agent, hello, resumed); };
  control_->on_message = [this](int agent, const v1::AgentMessage& message) {
    listener_->agent_message(agent, message);
  };
  control_->on_cut = [this](int agent) { listener_->agent_stream(agent, false); };
  control_->on_unreadable = [this](int agent) { listener_->agent_unreadable(agent); };

  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, kListenBacklog));
  MUSTER_ASSIGN_OR_RETURN(output_port_, base::local_port(listening.get()));
  MUSTER_ASSIGN_OR_RETURN(hub_, OutputHub::start({}, std::move(listening)));
  add_output(sink);
  return base::ok_status();
}

void OwnAgents::add_output(OutputSink* sink) {
  // Drops what the hub's thread posted in an earlier generation.
  const auto of_this_generation = [this](auto function) {
    return posted([attempt = options_.attempt, function](OwnAgents& self, const auto& argument) {
      if (self.options_.attempt == attempt) function(*self.listener_, argument);
    });
  };
  OutputHubEvents events;
  events.on_agent_complete = of_this_generation([](AgentListener& to, int agent) { to.output_complete(agent); });
  events.on_agent_cut = of_this_generation([](AgentListener& to, int agent) { to.output_cut(agent); });
  events.on_error = of_this_generation([](AgentListener& to, const base::Status& why) { to.output_failed(why); });
  hub_->add_job(options_.job_id, sink, std::move(events));
}

base::Result<std::string> OwnAgents::make_join(int agent, const std::optional<v1::Relay>& parent) const {
  const Host& host = hosts_[static_cast<std::size_t>(agent)];
  v1::AgentJoin join;
  join.set_job_id(options_.job_id);
  join.set_agent_index(agent);
  add_launcher_addresses(host.host.is_local, join);
  join.set_control_port(control_->port());
  join.set_output_port(output_port_);
  join.set_token(host.token);
  join.set_link(options_.agent_link);
  join.set_lease_ms(options_.lease.count());
  join.set_contain(options_.contain);
  join.set_session_root(options_.session_root);
  join.set_dial_timeout_ms(options_.dial_timeout.count());
  join.set_verbose(options_.verbose);
  join.set_host_name(host.host.target.name);
  join.set_attempt(options_.attempt);
  join.set_without_gpus(options_.without_gpus);
  join.set_serves_relay(host.serves_relay);
  if (parent) *join.mutable_parent() = *parent;
  if (options_.is_kept) {
    join.set_warm(true);
    join.set_idle_timeout_ms(proto::kUntilLogInEnds);
  }
  return proto::frame_message(join);
}

void OwnAgents::start_agent(int agent, JoinSource join) {
  bootstrap_->start(at(agent).host.target, std::move(join),
                    [&loop = loop_, weak = weak_from_this(), agent](base::Result<StartedAgent> started) {
                      // StartedAgent is move-only but std::function must be copyable, so share it on its way to the
                      // loop.
                      auto shared = std::make_shared<base::Result<StartedAgent>>(std::move(started));
                      loop.post([weak, agent, shared] {
                        if (const auto self = weak.lock()) self->bootstrapped(agent, std::move(*shared));
                      });
                    });
}

void OwnAgents::bootstrapped(int agent, base::Result<StartedAgent> started) {
  Host& host = at(agent);
  if (host.is_dropped) return;  // too late: destroying `started` closes the stream, which ends the agent
  if (!started.ok()) {
    relays_.lost(agent);
    listener_->agent_failed(agent, started.status().message());
    return;
  }
  host.up.launcher_addresses = started->launcher_addresses;
  host.up.host_address = started->host_address;
  listener_->note(fmt::format("{}: agent started by {}{}", host.host.target.name, started->backend,
                              started->agent_sent ? ", sent to its cache first" : ", found in its cache"));
  AgentChannel::Events events;
  events.on_link = [this, agent](const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output) {
    linked(agent, choice, std::move(control), std::move(output));
  };
  events.on_gone = [this, agent](const base::Status& status) {
    relays_.lost(agent);
    listener_->agent_gone(agent, status);
  };
  host.link = std::make_unique<AgentChannel>(loop_, std::move(started->stream), std::move(events));
  listener_->agent_started(agent);
  if (const auto early = std::exchange(host.early_hello, std::nullopt)) report_up(agent, *early);
}

void OwnAgents::linked(int agent, const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output) {
  Host& host = at(agent);
  host.up.link = choice.over_ssh ? "ssh" : "dial";
  if (!choice.over_ssh) {
    listener_->note(fmt::format("{}: control and output by connections from the host", host.host.target.name));
    return;
  }
  listener_->note(fmt::format("{}: control and output over ssh ({})", host.host.target.name, choice.reason));
  control_->add_connection(std::move(control));
  host.output_over_ssh = std::move(output);
}

void OwnAgents::on_hello(int agent, const v1::Hello& hello, bool resumed) {
  Host& host = at(agent);
  if (host.is_dropped) return;
  if (hello.relay_port() != 0) relays_.relay_up(agent, relay_of(hello));
  listener_->agent_stream(agent, true);
  if (host.is_dropped) return;
  if (resumed) {
    listener_->note(fmt::format("{}: the control connection is back", host.host.target.name));
    return;
  }
  // The agent gets its join before the bootstrap's thread posts that it runs. On a busy machine the agent's Hello may
  // come before that post, so keep the Hello.
  if (host.link == nullptr) {
    host.early_hello = hello;
    return;
  }
  report_up(agent, hello);
}

void OwnAgents::report_up(int agent, const v1::Hello& hello) {
  Host& host = at(agent);
  host.up.hello = hello;
  listener_->agent_up(agent, host.up);
}

void OwnAgents::cancel_start() {
  bootstrap_->cancel();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {  // threads of the bootstrap may wait for these
    settle_join(static_cast<int>(i), base::cancelled("the start was ended"));
  }
}

void OwnAgents::send(int agent, v1::LauncherMessage message) {
  control_->send(agent, std::move(message));
}

void OwnAgents::send_unnumbered(int agent, v1::LauncherMessage message) {
  control_->send_unnumbered(agent, std::move(message));
}

void OwnAgents::expect_output(int agent, const std::vector<int>& ranks) {
  Host& host = at(agent);
  const base::Status expected =
      hub_->expect_agent(options_.job_id, {.agent = agent, .secret = host.output_secret, .ranks = ranks});
  if (!expected.ok()) listener_->output_failed(expected);
  if (host.output_over_ssh.valid()) hub_->add_connection(std::move(host.output_over_ssh));
}

void OwnAgents::expect_more_output(int agent, const std::vector<int>& ranks) {
  hub_->expect_ranks(options_.job_id, agent, ranks);
}

void OwnAgents::output_ends(int agent) {
  hub_->agent_ended(options_.job_id, agent);
}

void OwnAgents::leave(int agent) {
  v1::LauncherMessage leave;
  leave.mutable_leave();
  control_->send(agent, std::move(leave));
}

void OwnAgents::drop(int agent) {
  Host& host = at(agent);
  host.is_dropped = true;
  relays_.lost(agent);
  if (control_ != nullptr) control_->forget(agent);
  if (hub_ != nullptr) hub_->forget_agent(options_.job_id, agent);
  host.link.reset();
  host.output_over_ssh.reset();
  host.early_hello.reset();
  host.up = {};
}

void OwnAgents::sweep(int agent, std::function<void(base::Result<CommandResult>)> done) {
  bootstrap_->run(at(agent).host.target, sweep_arguments(options_.job_id, options_.session_root),
                  [&loop = loop_, weak = weak_from_this(), done = std::move(done)](base::Result<CommandResult> result) {
                    loop.post([weak, done, result = std::move(result)] {
                      if (weak.lock() != nullptr) done(result);
                    });
                  });
}

}  // namespace muster::launcherd::agents
