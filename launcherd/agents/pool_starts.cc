// The part of HostPool's core that starts agents: it lists them in the state file, runs the bootstrap, and retries
// failures.
// Read it in this order: ask, start_agent, start_announced, bootstrap, bootstrapped, start_failed.
#include <algorithm>
#include <utility>

#include "base/ids.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/agents/pool_core.h"
#include "proto/frame.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr std::chrono::seconds kReportAfter{20};
// TCP sends a lost SYN again after 1, 3 and 7 s, so an agent needs that long on a lossy network.
constexpr std::chrono::milliseconds kPoolDialTimeout{12'000};
constexpr std::chrono::milliseconds kAfterLogin{2'000};  // for the report of an agent that has left its log-in
constexpr std::chrono::seconds kFirstRetry{5};
constexpr std::chrono::seconds kLastRetry{60};
// After this many failures, about ten minutes, retry a host less often.
constexpr int kManyFailures = 12;
constexpr std::chrono::seconds kSlowRetry{300};

std::chrono::seconds pause_after(int failures) {
  const std::chrono::seconds longest = failures < kManyFailures ? kLastRetry : kSlowRetry;
  return std::min<std::chrono::seconds>(kFirstRetry * (1 << std::min(failures, 6)), longest);
}

}  // namespace

base::Result<std::string> HostPool::Core::make_join(PoolHost& host) {
  v1::AgentJoin join;
  join.set_warm(true);
  join.set_job_id(state_.id());
  join.set_agent_index(host.hello_number);
  add_launcher_addresses(host.is_local, join);
  join.set_control_port(control_->port());
  join.set_output_port(state_.output_port());
  join.set_ca_pem(keys_->trusted_pem());
  join.set_certificate_pem(keys_->agents().cert_pem);
  join.set_key_pem(keys_->agents().key_pem);
  host.has_next_keys = keys_->is_offering();
  join.set_token(host.token);
  join.set_link("dial");
  join.set_lease_ms(options_.lease.count());
  join.set_idle_timeout_ms(options_.idle_timeout.count());
  join.set_contain("auto");
  join.set_session_root(options_.session_root);
  join.set_dial_timeout_ms(kPoolDialTimeout.count());
  join.set_verbose(options_.verbose);
  join.set_host_name(host.target.name);
  return proto::frame_message(join);
}

void HostPool::Core::ask(const AgentHost& wanted) {
  PoolHost& host = host_at(wanted.target);
  if (host.phase == PoolHost::Phase::kUp) return changed(host);
  host.is_local = wanted.is_local;
  host.is_asked = true;
  // A failed agent is retried by a timer. An awaited agent connects or is found gone.
  if (host.phase == PoolHost::Phase::kNone) start_agent(host);
}

void HostPool::Core::start_agent(PoolHost& host) {
  host.retry_timer.cancel();
  const std::string token = base::random_hex(32);
  const int number = control_->add_agent(token);
  number_agent(host, token, number, number);
  host.has_dialled = false;
  host.phase = PoolHost::Phase::kStarting;
  announced_.push_back(host.number);
  changed(host);
  if (announced_.size() > 1) return;
  loop_.post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->start_announced();
  });
}

// Saves the state file, then starts the announced agents. The next launcherd must know all agents that may connect to
// it.
void HostPool::Core::start_announced() {
  const std::vector<int> numbers = std::exchange(announced_, {});
  const base::Status saved = lets_go_ ? base::error(base::Code::kCancelled, "launcherd was ended") : save_state();
  // Hosts that failed before start one by one, because a host that breaks its wave would break it again.
  std::vector<BootstrapTarget> together;
  for (const int number : numbers) {
    const PoolHost* const host = host_numbered(number);
    if (saved.ok() && host != nullptr && host->failures == 0) together.push_back(host->target);
  }
  bootstrap_->expect(together);
  for (const int number : numbers) {
    PoolHost* const host = host_numbered(number);
    if (host == nullptr) continue;
    if (saved.ok()) {
      bootstrap(*host);
    } else {
      start_failed(*host, saved.message());
    }
  }
}

void HostPool::Core::bootstrap(PoolHost& host) {
  auto join = make_join(host);
  if (!join.ok()) {
    start_failed(host, join.status().message());
    return;
  }
  bootstrap_->start(
      host.target, ready_join(std::move(*join)),
      [&loop = loop_, weak = weak_from_this(), &host, number = host.number](base::Result<StartedAgent> started) {
        // StartedAgent is move-only but std::function must be copyable, so share it on its way to the loop.
        auto shared = std::make_shared<base::Result<StartedAgent>>(std::move(started));
        loop.post([weak, &host, number, shared] {
          if (const auto self = weak.lock()) self->bootstrapped(host, number, std::move(*shared));
        });
      });
}

void HostPool::Core::bootstrapped(PoolHost& host, int number, base::Result<StartedAgent> started) {
  if (host.number != number) return;  // another agent was started there since
  if (!started.ok()) {
    start_failed(host, started.status().message());
    return;
  }
  host.up.launcher_addresses = started->launcher_addresses;
  host.up.host_address = started->host_address;
  save_soon();  // the next launcherd needs the addresses, because it does not log in
  note(fmt::format("{}: agent started by {}{}", host.target.name, started->backend,
                   started->agent_sent ? ", sent to its cache first" : ", found in its cache"));
  if (host.phase == PoolHost::Phase::kStarting) {
    host.phase = PoolHost::Phase::kJoining;
    host.look_timer = loop_.after(kReportAfter, [this, &host] {
      start_failed(host, fmt::format("{}: the agent was started but did not report: check whether the host can connect "
                                     "to this one",
                                     host.target.name));
    });
  }
  AgentChannel::Events events;
  // An agent that has dialled no longer needs its log-in. Either on_link or on_gone may come first.
  events.on_link = [&host, number](const LinkChoice&, base::UniqueFd, base::UniqueFd) {
    if (host.number == number) host.has_dialled = true;
  };
  events.on_gone = [this, &host, number](const base::Status& status) {
    if (host.number != number) return;
    // The link is still inside this call, so destroy it afterwards.
    loop_.post([weak = weak_from_this(), &host, number] {
      if (weak.lock() != nullptr && host.number == number) host.link.reset();
    });
    // An agent that has dialled leaves its log-in, and its TLS handshake may still be under way.
    if (host.phase == PoolHost::Phase::kJoining && !host.has_stream && !host.has_dialled) {
      host.look_timer = loop_.after(kAfterLogin, [this, &host, text = status.message()] {
        start_failed(host, fmt::format("{}: the agent started and ended before it reported ({}): see its messages in "
                                       "launcherd's log",
                                       host.target.name, text));
      });
    }
  };
  host.link = std::make_unique<AgentChannel>(loop_, std::move(started->stream), std::move(events));
}

void HostPool::Core::start_failed(PoolHost& host, const std::string& message) {
  if (host.number >= 0) forget_agent(host);
  host.look_timer.cancel();
  host.link.reset();
  host.phase = PoolHost::Phase::kFailed;
  host.problem = message;
  if (lets_go_) {
    host.is_dismissed = false;
    if (!is_any_dismissed()) tell_gone();
    return;
  }
  host.retry_timer = loop_.after(pause_after(host.failures++), [this, &host] { start_agent(host); });
  fail_sessions(host, message);
  changed(host);
}

}  // namespace muster::launcherd::agents
