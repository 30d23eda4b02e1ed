// HostProbes::Core starts an agent per host, and asks it for its clock, its facts, and whether it reaches the first
// host.
// Read start first, then ask_clock, ask_facts and ask_peers in the order of a probe, then fail and finish_if_done.
#include "launcherd/doctor/host_probes.h"

#include <sys/socket.h>

#include <algorithm>
#include <mutex>
#include <tuple>

#include "base/ids.h"
#include "base/strings.h"
#include "launcherd/doctor/probe_link.h"
#include "model/rank_env.h"
#include "proto/convert.h"
#include "proto/frame.h"

namespace muster::launcherd::inline doctor {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

constexpr int kClockReadings = 8;
constexpr milliseconds kClockTime{10'000};
constexpr milliseconds kPythonTime{20'000};
constexpr milliseconds kFactsTime{40'000};
constexpr milliseconds kDialTime{1'000};  // as for a job's agents
constexpr milliseconds kReachTime{3'000};
constexpr milliseconds kAnswerMargin{5'000};
constexpr int kListenBacklog = 1024;
constexpr int kMaxDialAddresses = 8;

using TargetKey = std::tuple<std::string, std::string, int>;

BootstrapTarget target_of(const model::HostSpec& host) {
  return {.name = host.name, .user = host.user, .port = host.port};
}

HostFacts facts_of(const HostFindings& findings) {
  return {.hello = findings.facts->hello(),
          .local = findings.is_local,
          .launcher_addresses = findings.launcher_addresses,
          .host_address = findings.host_address,
          .prepared = {}};
}

}  // namespace

class HostProbes::Core : public std::enable_shared_from_this<Core> {
 public:
  Core(base::Loop& loop, Bootstrap* bootstrap, ProbePlan plan, ProbeEvents events)
      : loop_(loop), bootstrap_(bootstrap), plan_(std::move(plan)), events_(std::move(events)) {}

  base::Status start();
  void failed(const BootstrapTarget& target, FailureKind kind);
  void drop() { is_dropped_ = true; }

 private:
  struct Host {
    HostFindings findings;
    base::MonotonicTime started_at{};
    std::unique_ptr<ProbeLink> link;
    int clock_readings = 0;
    bool is_answered = false;
    bool is_done = false;
  };
  using Handler = void (Core::*)(std::size_t, const v1::ProbeAnswer&);

  base::Status open_listener();
  base::Result<std::string> make_join(std::size_t index) const;
  void bootstrapped(std::size_t index, base::Result<StartedAgent> started);
  std::optional<FailureKind> class_of_failure(const model::HostSpec& host);
  void ask(std::size_t index, const v1::ProbeCommand& command, milliseconds timeout, Handler handler);
  void ask_clock(std::size_t index);
  void took_clock(std::size_t index, const v1::ProbeAnswer& answer);
  void ask_facts(std::size_t index);
  void took_facts(std::size_t index, const v1::ProbeAnswer& answer);
  void fail(std::size_t index, const base::Status& status);
  void answered(std::size_t index);
  void ask_peers();
  void took_peer(std::size_t index, const v1::ProbeAnswer& answer);
  void done(std::size_t index);
  void finish_if_done();
  void report_progress();

  base::Loop& loop_;
  Bootstrap* const bootstrap_;
  const ProbePlan plan_;
  const ProbeEvents events_;
  const std::string job_id_ = base::JobId::random().str();
  std::vector<Host> hosts_;
  base::UniqueFd listener_;  // accepts the hosts' connections back
  std::uint16_t port_ = 0;
  base::Timer accepting_;
  bool is_dropped_ = false;   // true if the owner has destroyed the HostProbes
  bool is_finished_ = false;  // true if on_done was called
  std::mutex mutex_;
  std::vector<std::pair<TargetKey, FailureKind>> failures_;  // guarded by mutex_
};

base::Status HostProbes::Core::start() {
  if (!plan_.shape_only) MUSTER_RETURN_IF_ERROR(open_listener());
  for (const model::HostSpec& spec : plan_.hosts) {
    Host& host = hosts_.emplace_back();
    host.findings.host = spec;
    host.findings.is_local = model::is_localhost(spec);
  }
  std::vector<BootstrapTarget> targets;
  for (const Host& host : hosts_) targets.push_back(target_of(host.findings.host));
  bootstrap_->expect(targets);
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].started_at = std::chrono::steady_clock::now();
    bootstrap_->start(target_of(hosts_[i].findings.host), ready_join(make_join(i)),
                      [weak = weak_from_this(), &loop = loop_, i](base::Result<StartedAgent> started) {
                        // StartedAgent is move-only but std::function needs copies, so share it on the way to the loop.
                        auto shared = std::make_shared<base::Result<StartedAgent>>(std::move(started));
                        loop.post([weak, i, shared] {
                          const auto core = weak.lock();
                          if (core != nullptr && !core->is_dropped_) core->bootstrapped(i, std::move(*shared));
                        });
                      });
  }
  report_progress();
  return base::ok_status();
}

base::Status HostProbes::Core::open_listener() {
  MUSTER_ASSIGN_OR_RETURN(listener_, base::listen_any(0, kListenBacklog));
  MUSTER_ASSIGN_OR_RETURN(port_, base::local_port(listener_.get()));
  // Close the connection at once, because an accepted connection is enough to show the host that it reaches us.
  accepting_ = loop_.on_readable(listener_.get(), [this] {
    const base::UniqueFd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  });
  return base::ok_status();
}

base::Result<std::string> HostProbes::Core::make_join(std::size_t index) const {
  const HostFindings& findings = hosts_[index].findings;
  v1::AgentJoin join;
  join.set_probe(true);
  join.set_job_id(job_id_);
  join.set_agent_index(static_cast<int>(index));
  if (findings.is_local) {
    join.add_launcher_addresses("127.0.0.1");
    join.add_launcher_addresses("::1");
  } else if (const auto own = base::interface_addresses(); own.ok()) {
    for (const base::InterfaceAddress& entry : *own) {
      if (entry.address.is_loopback() || join.launcher_addresses_size() >= kMaxDialAddresses) continue;
      join.add_launcher_addresses(entry.address.str());
    }
  }
  join.set_output_port(port_);
  join.set_link(plan_.agent_link);
  join.set_contain(plan_.contain);
  join.set_session_root(std::string(plan_.environment.get("MUSTER_TMPDIR").value_or("")));
  join.set_dial_timeout_ms(kDialTime.count());
  join.set_host_name(findings.host.name);
  return proto::frame_message(join);
}

void HostProbes::Core::bootstrapped(std::size_t index, base::Result<StartedAgent> started) {
  Host& host = hosts_[index];
  if (!started.ok()) {
    host.findings.failure = class_of_failure(host.findings.host);
    return fail(index, started.status());
  }
  const auto took = std::chrono::steady_clock::now() - host.started_at;
  host.findings.start_time = std::chrono::duration_cast<milliseconds>(took);
  host.findings.backend = started->backend;
  host.findings.agent_sent = started->agent_sent;
  host.findings.launcher_addresses = std::move(started->launcher_addresses);
  host.findings.host_address = std::move(started->host_address);
  host.link = std::make_unique<ProbeLink>(loop_, std::move(started->stream));
  if (plan_.shape_only) {
    ask_facts(index);
  } else {
    ask_clock(index);
  }
}

std::optional<FailureKind> HostProbes::Core::class_of_failure(const model::HostSpec& host) {
  const std::lock_guard lock(mutex_);
  const auto known = std::ranges::find(failures_, TargetKey{host.name, host.user, host.port},
                                       [](const auto& entry) { return entry.first; });
  return known == failures_.end() ? std::nullopt : std::optional(known->second);
}

void HostProbes::Core::ask(std::size_t index, const v1::ProbeCommand& command, milliseconds timeout, Handler handler) {
  hosts_[index].link->ask(command, timeout, [this, index, handler](base::Result<v1::ProbeAnswer> answer) {
    if (!answer.ok()) {
      fail(index, answer.status().with_context("host " + hosts_[index].findings.host.name));
    } else {
      (this->*handler)(index, *answer);
    }
  });
}

void HostProbes::Core::ask_clock(std::size_t index) {
  v1::ProbeCommand command;
  command.mutable_read_clock();
  // Each call takes one reading. The answer starts the next call.
  const auto before = std::chrono::system_clock::now();
  hosts_[index].link->ask(command, kClockTime, [this, index, before](base::Result<v1::ProbeAnswer> answer) {
    if (!answer.ok()) return fail(index, answer.status().with_context("host " + hosts_[index].findings.host.name));
    const auto after = std::chrono::system_clock::now();
    const auto round_trip = std::max<nanoseconds>(nanoseconds(0), after - before);
    const nanoseconds middle = before.time_since_epoch() + round_trip / 2;
    auto& best = hosts_[index].findings.clock;
    const ClockSample sample{nanoseconds(answer->clock().wall_ns()) - middle, round_trip / 2};
    if (answer->has_clock() && (!best || sample.uncertainty < best->uncertainty)) best = sample;
    if (++hosts_[index].clock_readings < kClockReadings) return ask_clock(index);
    ask_facts(index);
  });
}

void HostProbes::Core::ask_facts(std::size_t index) {
  v1::ProbeCommand command;
  v1::AskFacts& facts = *command.mutable_ask_facts();
  facts.set_shape_only(plan_.shape_only);
  facts.set_python_timeout_ms(kPythonTime.count());
  if (!plan_.shape_only) {
    proto::set_environment(
        model::exported_variables(plan_.environment, plan_.job.environment, hosts_[index].findings.is_local),
        *facts.mutable_environment());
  }
  ask(index, command, kFactsTime, &Core::took_facts);
}

void HostProbes::Core::took_facts(std::size_t index, const v1::ProbeAnswer& answer) {
  if (answer.has_facts()) hosts_[index].findings.facts = answer.facts();
  answered(index);
}

void HostProbes::Core::fail(std::size_t index, const base::Status& status) {
  Host& host = hosts_[index];
  host.link.reset();
  if (host.is_answered) {
    host.findings.peer->failure = status.message();
    done(index);
    return;
  }
  host.findings.status = status;
  answered(index);
}

// Called when the host has sent its facts or has failed.
void HostProbes::Core::answered(std::size_t index) {
  hosts_[index].is_answered = true;
  report_progress();
  if (std::ranges::all_of(hosts_, &Host::is_answered)) ask_peers();
}

void HostProbes::Core::ask_peers() {
  std::vector<std::size_t> up;
  std::vector<HostFacts> facts;
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    hosts_[i].is_done = true;
    if (plan_.shape_only || !hosts_[i].findings.facts) continue;
    up.push_back(i);
    facts.push_back(facts_of(hosts_[i].findings));
  }
  if (up.size() < 2) return finish_if_done();
  const auto address = choose_master_address(facts, plan_.job);
  const HostFindings& first = hosts_[up.front()].findings;
  v1::ProbeCommand command;
  command.mutable_reach()->add_addresses(address.ok() ? *address : "");
  command.mutable_reach()->set_port(first.facts->listen_port());
  command.mutable_reach()->set_timeout_ms(kReachTime.count());
  for (std::size_t k = 1; k < up.size(); ++k) {
    hosts_[up[k]].findings.peer = {.host = first.host.name,
                                   .address = address.ok() ? *address : "",
                                   .failure = address.ok() ? "" : address.status().message()};
    hosts_[up[k]].is_done = !address.ok();
    if (address.ok()) ask(up[k], command, kReachTime + kAnswerMargin, &Core::took_peer);
  }
  finish_if_done();
}

void HostProbes::Core::took_peer(std::size_t index, const v1::ProbeAnswer& answer) {
  if (answer.reached().address().empty()) hosts_[index].findings.peer->failure = answer.reached().failure();
  done(index);
}

void HostProbes::Core::done(std::size_t index) {
  hosts_[index].is_done = true;
  finish_if_done();
}

void HostProbes::Core::finish_if_done() {
  if (is_finished_ || !std::ranges::all_of(hosts_, &Host::is_done)) return;
  is_finished_ = true;
  std::vector<HostFindings> all;
  for (Host& host : hosts_) all.push_back(std::move(host.findings));
  events_.on_done(std::move(all));
}

void HostProbes::Core::failed(const BootstrapTarget& target, FailureKind kind) {
  const std::lock_guard lock(mutex_);
  failures_.emplace_back(TargetKey{target.name, target.user, target.port}, kind);
}

void HostProbes::Core::report_progress() {
  if (!events_.on_progress) return;
  std::vector<std::string> waiting;
  for (const Host& host : hosts_) {
    if (!host.is_answered) waiting.push_back(host.findings.host.name);
  }
  events_.on_progress(waiting);
}

HostProbes::HostProbes(base::Loop& loop, Bootstrap* bootstrap, ProbePlan plan, ProbeEvents events)
    : core_(std::make_shared<Core>(loop, bootstrap, std::move(plan), std::move(events))) {}

HostProbes::~HostProbes() {
  core_->drop();
}

base::Status HostProbes::start() {
  return core_->start();
}

void HostProbes::failed(const BootstrapTarget& target, FailureKind kind) {
  core_->failed(target, kind);
}

}  // namespace muster::launcherd::doctor
