// Hosts come up, learn of each other, and are told their ranks.
#include <algorithm>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/jobs/job_core.h"
#include "proto/convert.h"
#include "proto/frame.h"
#include "proto/peer_names.h"

namespace muster::launcherd {
namespace {

constexpr int kListenBacklog = 1024;
constexpr std::size_t kMaxDialAddresses = 8;
// The bootstrap has the same time limit, and knows how far it came with a host.
constexpr std::chrono::milliseconds kBootstrapSpeaksFirst{500};

}  // namespace

JobRunner::Core::Core(base::Loop& loop, const base::Clock& clock, model::JobSpec job, model::Placement placement,
                      LaunchOptions options, base::Environment environment, Bootstrap* bootstrap, OutputSink* sink,
                      JobObserver* observer)
    : loop_(loop),
      clock_(clock),
      job_(std::move(job)),
      placement_(std::move(placement)),
      options_(std::move(options)),
      environment_(std::move(environment)),
      bootstrap_(bootstrap),
      sink_(sink),
      observer_(observer),
      ends_(placement_.size, job_.on_exit) {}

base::Status JobRunner::Core::start() {
  started_at_ = last_tick_ = clock_.now();
  for (std::size_t i = 0; i < placement_.hosts.size(); ++i) {
    JobHost& host = hosts_.emplace_back();
    host.agent = host.placed = static_cast<int>(i);
    host.name = placement_.hosts[i].host.name;
    host.facts.local = model::is_localhost(placement_.hosts[i].host);
    host.token = base::random_hex(32);
    host.last_heard = started_at_;
  }
  // The log-ins take longest: they begin first, and find what the agents are told ready when they are through.
  std::vector<std::promise<base::Result<std::string>>> promises(hosts_.size());
  for (std::size_t i = 0; i < hosts_.size(); ++i) start_agent(hosts_[i], promises[i].get_future().share());
  auto joins = open_services();
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    promises[i].set_value(joins.ok() ? base::Result<std::string>(std::move((*joins)[i])) : joins.status());
  }
  MUSTER_RETURN_IF_ERROR(joins.status());
  start_timer_ = loop_.after(job_.start_timeout + kBootstrapSpeaksFirst, [this] { start_timed_out(); });
  tick_timer_ = loop_.every(kPingPeriod, [this] { tick(); });
  report_progress();
  return base::ok_status();
}

base::Result<std::vector<std::string>> JobRunner::Core::open_services() {
  MUSTER_ASSIGN_OR_RETURN(const auto ca, base::CertificateAuthority::create());
  MUSTER_ASSIGN_OR_RETURN(const base::TlsIdentity identity, ca.issue("launcherd", {std::string(proto::kLauncherName)}));
  ControlServerOptions control;
  control.job_id = options_.job_id;
  control.ca_pem = ca.ca_pem();
  control.certificate_pem = identity.cert_pem;
  control.key_pem = identity.key_pem;
  for (const JobHost& host : hosts_) control.tokens.push_back(host.token);
  MUSTER_ASSIGN_OR_RETURN(control_, ControlServer::start(loop_, std::move(control)));
  control_->on_hello = [this](int agent, const v1::Hello& hello, bool resumed) { said_hello(agent, hello, resumed); };
  control_->on_message = [this](int agent, const v1::AgentMessage& message) { said(agent, message); };
  control_->on_cut = [this](int agent) { host_at(agent).has_stream = false; };

  MUSTER_ASSIGN_OR_RETURN(base::UniqueFd listening, base::listen_any(0, kListenBacklog));
  MUSTER_ASSIGN_OR_RETURN(output_port_, base::local_port(listening.get()));
  std::vector<base::TlsKey> keys;
  for (const JobHost& host : hosts_) {
    keys.push_back({proto::output_identity(options_.job_id, host.agent), host.token});
  }
  MUSTER_ASSIGN_OR_RETURN(const auto tls, base::TlsContext::server(std::move(keys)));
  OutputHubEvents events;
  events.on_agent_complete = posted([](Core& core, int agent) {
    core.host_at(agent).output_complete = true;
    core.maybe_finish();
  });
  events.on_error = posted([](Core& core, const base::Status& status) { core.output_failed(status); });
  MUSTER_ASSIGN_OR_RETURN(hub_,
                          OutputHub::start({.job = options_.job_id, .tls = tls}, std::move(listening), sink_, events));
  // One for all agents of the job: making a key and a certificate takes longer than all else on this path.
  MUSTER_ASSIGN_OR_RETURN(const base::TlsIdentity shared,
                          ca.issue("agent", {"URI:" + proto::agent_uri(options_.job_id)}));
  std::vector<std::string> joins;
  for (const JobHost& host : hosts_) joins.push_back(make_join(host, ca.ca_pem(), shared));
  return joins;
}

std::string JobRunner::Core::make_join(const JobHost& host, const std::string& ca_pem,
                                       const base::TlsIdentity& identity) const {
  v1::AgentJoin join;
  join.set_job_id(options_.job_id);
  join.set_agent_index(host.agent);
  if (host.facts.local) {
    join.add_launcher_addresses("127.0.0.1");
    join.add_launcher_addresses("::1");
  } else if (const auto own = base::interface_addresses(); own.ok()) {
    // After the address that sshd saw, which the agent tries first: the launcher may be multi-homed.
    for (const base::InterfaceAddress& entry : *own) {
      if (entry.address.is_loopback() || join.launcher_addresses_size() >= static_cast<int>(kMaxDialAddresses))
        continue;
      join.add_launcher_addresses(entry.address.str());
    }
  }
  join.set_control_port(control_->port());
  join.set_output_port(output_port_);
  join.set_ca_pem(ca_pem);
  join.set_certificate_pem(identity.cert_pem);
  join.set_key_pem(identity.key_pem);
  join.set_token(host.token);
  join.set_link(options_.agent_link);
  join.set_lease_ms(job_.lease.count());
  join.set_contain(options_.contain);
  join.set_session_root(environment_.get("MUSTER_TMPDIR") ? std::string(*environment_.get("MUSTER_TMPDIR")) : "");
  join.set_dial_timeout_ms(1'000);
  join.set_verbose(options_.verbose);
  join.set_host_name(host.name);
  join.set_attempt(options_.attempt);
  return proto::frame_message(join);
}

void JobRunner::Core::start_agent(const JobHost& host, JoinSource join) {
  const model::HostSpec& spec = placement_.hosts[static_cast<std::size_t>(host.placed)].host;
  bootstrap_->start({.name = spec.name, .user = spec.user, .port = spec.port}, std::move(join),
                    [&loop = loop_, weak = self_, agent = host.agent](base::Result<StartedAgent> started) {
                      // StartedAgent is move-only and std::function is not: shared for the hop to the loop.
                      auto shared = std::make_shared<base::Result<StartedAgent>>(std::move(started));
                      loop.post([weak, agent, shared] {
                        const auto core = weak.lock();
                        if (core != nullptr && !core->finished_) core->bootstrapped(agent, std::move(*shared));
                      });
                    });
}

void JobRunner::Core::bootstrapped(int agent, base::Result<StartedAgent> started) {
  JobHost& host = host_at(agent);
  if (!started.ok()) {
    if (stopping_) {
      host.phase = HostPhase::kFailed;
      maybe_finish();
    } else {
      host_start_failed(agent, started.status().message());
    }
    return;
  }
  if (stopping_) {  // too late: closing the stream ends the agent
    host.phase = HostPhase::kFailed;
    maybe_finish();
    return;
  }
  host.phase = HostPhase::kJoining;
  host.facts.launcher_addresses = started->launcher_addresses;
  host.facts.host_address = started->host_address;
  observer_->on_note(fmt::format("{}: agent started by {}{}", host.name, started->backend,
                                 started->agent_sent ? ", sent to its cache first" : ", found in its cache"));
  HostLink::Events events;
  events.on_link = [this, agent](const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output) {
    linked(agent, choice, std::move(control), std::move(output));
  };
  events.on_gone = [this, agent](const base::Status& status) { agent_gone(agent, status); };
  host.link = std::make_unique<HostLink>(loop_, std::move(started->stream), std::move(events));
}

void JobRunner::Core::linked(int agent, const LinkChoice& choice, base::UniqueFd control, base::UniqueFd output) {
  JobHost& host = host_at(agent);
  if (!choice.over_ssh) {
    observer_->on_note(fmt::format("{}: control and output by connections from the host", host.name));
    return;
  }
  observer_->on_note(fmt::format("{}: control and output over ssh ({})", host.name, choice.reason));
  const base::Status added = control_->add_connection(std::move(control));
  if (!added.ok()) {
    agent_gone(agent, added);
    return;
  }
  host.output_over_ssh = std::move(output);
}

void JobRunner::Core::said_hello(int agent, const v1::Hello& hello, bool resumed) {
  JobHost& host = host_at(agent);
  host.last_heard = clock_.now();
  host.has_stream = true;
  if (resumed) {
    observer_->on_note(fmt::format("{}: the control connection is back", host.name));
    return;
  }
  if (stopping_ || host.phase == HostPhase::kFailed || host.phase == HostPhase::kLost) return;
  if (hello.build_id() != options_.build_id) {
    host_start_failed(agent, fmt::format("{}: the agent there is of build {}, this launcher is of build {}: remove the "
                                         "cached agent on {} and start again",
                                         host.name, base::printable(hello.build_id()), options_.build_id, host.name));
    return;
  }
  host.facts.hello = hello;
  host.phase = HostPhase::kUp;
  observer_->on_note(fmt::format("{}: up, {} cores, containment {}{}{}", host.name, hello.cores_size(),
                                 hello.containment(), hello.containment_note().empty() ? "" : ": ",
                                 base::printable(hello.containment_note())));
  report_progress();
  maybe_prepare();
}

void JobRunner::Core::report_progress() {
  int up = 0;
  int total = 0;
  std::vector<std::string> waiting;
  for (const JobHost& host : hosts_) {
    if (host.phase == HostPhase::kUnused) continue;
    ++total;
    if (host.phase == HostPhase::kBootstrapping || host.phase == HostPhase::kJoining) {
      waiting.push_back(host.name);
    } else if (host.phase != HostPhase::kFailed) {
      ++up;
    }
  }
  observer_->on_progress(up, total, waiting);
}

void JobRunner::Core::host_start_failed(int agent, const std::string& message) {
  JobHost& host = host_at(agent);
  if (host.phase == HostPhase::kFailed) return;
  host.phase = HostPhase::kFailed;
  host.link.reset();
  control_->forget(agent);
  host_failures_.push_back({host.name, message});
  report_progress();
  const bool any_waiting = std::ranges::any_of(hosts_, [](const JobHost& other) {
    return other.phase == HostPhase::kBootstrapping || other.phase == HostPhase::kJoining;
  });
  if (!any_waiting) {
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start");
  } else if (!gather_timer_.armed()) {
    gather_timer_ = loop_.after(kGatherFailures, [this] {
      begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start");
    });
  }
}

void JobRunner::Core::start_timed_out() {
  if (!is_starting()) return;
  for (JobHost& host : hosts_) {
    if (host.phase != HostPhase::kBootstrapping && host.phase != HostPhase::kJoining) continue;
    const bool agent_runs = host.phase == HostPhase::kJoining;
    host.phase = HostPhase::kFailed;
    host_failures_.push_back(
        {host.name, fmt::format("{}: {} within {} s: check the host and its network, or allow more by --start-timeout",
                                host.name, agent_runs ? "the agent was started but did not report" : "no log-in",
                                std::chrono::duration_cast<std::chrono::seconds>(job_.start_timeout).count())});
  }
  begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "not all hosts came up in time");
}

void JobRunner::Core::maybe_prepare() {
  if (prepared_sent_ || stopping_) return;
  if (!std::ranges::all_of(hosts_, [](const JobHost& host) { return host.phase == HostPhase::kUp; })) {
    if (!host_failures_.empty() && std::ranges::none_of(hosts_, [](const JobHost& host) {
          return host.phase == HostPhase::kBootstrapping || host.phase == HostPhase::kJoining;
        })) {
      begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start");
    }
    return;
  }
  const base::Status merged = merge_same_hosts();
  if (!merged.ok()) {
    host_failures_.push_back({"", merged.message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), merged.message());
    return;
  }
  prepare_hosts();
}

// Two entries of the list that turn out to be one host become one, as if the list had named it twice.
base::Status JobRunner::Core::merge_same_hosts() {
  std::vector<HostFacts> facts;
  for (const JobHost& host : hosts_) facts.push_back(host.facts);
  const std::vector<int> first_of = find_same_hosts(facts);
  model::PlacementRequest request = job_.placement;
  bool any = false;
  for (JobHost& host : hosts_) {
    const int first = first_of[static_cast<std::size_t>(host.agent)];
    if (first == host.agent) continue;
    any = true;
    const JobHost& kept = host_at(first);
    for (model::HostSpec& spec : request.hosts) {
      if (spec.name == host.name) spec.name = kept.name;
    }
    observer_->on_warning(fmt::format("{} and {} are the same host; their slots are added", kept.name, host.name));
    host.phase = HostPhase::kUnused;
    host.placed = -1;
    host.output_complete = true;
    v1::LauncherMessage leave;
    leave.mutable_leave();
    control_->send(host.agent, std::move(leave));
  }
  if (!any) return base::ok_status();
  auto placement = model::place(request);
  if (!placement.ok()) return placement.status();
  placement_ = std::move(*placement);
  for (JobHost& host : hosts_) {
    const auto found =
        std::ranges::find(placement_.hosts, host.name, [](const auto& placed) { return placed.host.name; });
    if (host.phase == HostPhase::kUnused) continue;
    host.placed = static_cast<int>(found - placement_.hosts.begin());
  }
  return base::ok_status();
}

// False: a host has no interface as the user wants it, and the job is being stopped.
bool JobRunner::Core::check_networks() {
  if (!is_network_chosen(job_)) return true;
  bool all = true;
  for (const JobHost& host : hosts_) {
    const auto chosen = choose_interface(host.facts.hello, job_);
    if (host.placed < 0 || chosen.ok()) continue;
    host_failures_.push_back({host.name, fmt::format("{}: {}", host.name, chosen.status().message())});
    all = false;
  }
  if (!all) begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host has no such network");
  return all;
}

void JobRunner::Core::prepare_hosts() {
  prepared_sent_ = true;
  std::vector<HostFacts> facts;
  for (const JobHost& host : hosts_) {
    if (host.placed >= 0) facts.push_back(host.facts);
  }
  if (!check_networks()) return;
  const auto master = choose_master_address(facts, job_);
  if (!master.ok()) {
    host_failures_.push_back({hosts_[0].name, master.status().message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), master.status().message());
    return;
  }
  master_address_ = *master;
  for (const JobHost& host : hosts_) {
    if (host.placed < 0) continue;
    v1::LauncherMessage message;
    message.mutable_prepare()->set_master_address(master_address_);
    if (host.placed == 0) {
      v1::Prepare& prepare = *message.mutable_prepare();
      prepare.set_hold_master_port(true);
      prepare.set_serve_torch(job_.torch_agent_store);
      prepare.set_serve_horovod(true);
      for (const model::PlacedHost& placed : placement_.hosts) {
        v1::HorovodHost& entry = *prepare.add_horovod_hosts();
        entry.set_name(model::horovod_hostname(placed.host.name));
        entry.set_local_size(static_cast<int>(placed.ranks.size()));
      }
    }
    control_->send(host.agent, std::move(message));
  }
}

void JobRunner::Core::prepared(JobHost& host, const v1::Prepared& answer) {
  if (stopping_ || host.phase != HostPhase::kUp) return;
  if (!answer.error().empty()) {
    host_start_failed(host.agent, fmt::format("{}: {}", host.name, base::printable(answer.error())));
    return;
  }
  host.facts.prepared = answer;
  host.phase = HostPhase::kPrepared;
  observer_->on_note(fmt::format("{}: interface {} ({})", host.name, answer.interface(), answer.address()));
  const bool all = std::ranges::all_of(hosts_, [](const JobHost& other) {
    return other.phase == HostPhase::kPrepared || other.phase == HostPhase::kUnused;
  });
  if (all) launch();
}

void JobRunner::Core::launch() {
  launched_ = true;
  start_timer_.cancel();
  std::vector<JobHost*> by_placed(placement_.hosts.size());
  for (JobHost& host : hosts_) {
    if (host.placed >= 0) by_placed[static_cast<std::size_t>(host.placed)] = &host;
  }
  std::vector<HostFacts> facts;
  for (const JobHost* host : by_placed) facts.push_back(host->facts);
  const std::vector<int> readers = model::reading_ranks(job_.input, placement_.size);
  if (!readers.empty()) {
    feed_ = std::make_unique<InputFeed>(
        readers, input_,
        [this](const std::vector<int>& ranks, std::string_view bytes, bool ends) { send_input(ranks, bytes, ends); });
  }
  LaunchPlan plan =
      plan_launch(job_, placement_, facts, {options_.job_id, options_.attempt}, master_address_, environment_);
  if (options_.attempt > 0) plan.warnings.clear();  // said before
  for (const std::string& warning : plan.warnings) observer_->on_warning(warning);
  for (std::size_t i = 0; i < plan.hosts.size(); ++i) {
    JobHost& host = *by_placed[i];
    for (const model::PlacedRank& rank : placement_.hosts[i].ranks) host.ranks.push_back(rank.rank);
    hub_->expect_agent(host.agent, host.ranks);
    if (host.output_over_ssh.valid()) hub_->add_connection(std::move(host.output_over_ssh));
    host.phase = HostPhase::kLaunched;
    if (i == 0) send_window();
    v1::LauncherMessage message;
    *message.mutable_launch() = std::move(plan.hosts[i]);
    control_->send(host.agent, std::move(message));
  }
}

}  // namespace muster::launcherd
