// PoolStarts: starts agents.
// Read it in this order: start, start_announced, bootstrap, bootstrapped, watch_login.
#include "launcherd/agents/pool_starts.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/ids.h"
#include "launcherd/agents/own_agents.h"
#include "proto/frame.h"

namespace muster::launcherd::inline agents {
namespace {

constexpr std::chrono::seconds kReportAfter{20};
// TCP sends a lost SYN again after 1, 3 and 7 s, so an agent may need this long on a lossy network.
constexpr std::chrono::milliseconds kPoolDialTimeout{12'000};
constexpr std::chrono::milliseconds kAfterLogin{2'000};  // time for a report after the log-in of the agent has ended
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

base::Result<std::string> PoolStarts::make_join(const PoolHost& host, const std::optional<v1::Relay>& parent) const {
  const HostPoolOptions& options = parts_.options;
  v1::AgentJoin join;
  join.set_warm(true);
  join.set_job_id(parts_.file.state().id());
  join.set_agent_index(host.hello_number);
  add_launcher_addresses(host.is_local, join);
  join.set_control_port(parts_.control->port());
  join.set_output_port(parts_.file.state().output_port());
  join.set_token(host.token);
  join.set_link("dial");
  join.set_lease_ms(options.lease.count());
  join.set_idle_timeout_ms(options.idle_timeout.count());
  join.set_contain("auto");
  join.set_session_root(options.session_root);
  join.set_dial_timeout_ms(kPoolDialTimeout.count());
  join.set_verbose(options.verbose);
  join.set_host_name(host.target.name);
  join.set_serves_relay(serving_.contains(host.number));
  if (parent) *join.mutable_parent() = *parent;
  return proto::frame_message(join);
}

void PoolStarts::start(PoolHost& host) {
  const std::string token = base::random_hex(32);
  const int number = parts_.control->add_agent(token);
  parts_.roster.add_agent(host, token, number, number);
  host.has_dialled = false;
  announced_.push_back(host.number);
  parts_.report_change(host);
  if (announced_.size() == 1) parts_.loop.post(gate_.wrap([this] { start_announced(); }));
}

// Saves the state file before it starts the announced agents, because the next launcherd must know every agent that may
// connect to it.
void PoolStarts::start_announced() {
  const std::vector<int> numbers = std::exchange(announced_, {});
  const base::Status saved = parts_.is_ending ? base::cancelled("launcherd is ending") : parts_.file.save();
  // If a host has failed before, start it alone. A host that made a whole wave fail may do so again.
  std::vector<BootstrapTarget> together;
  for (const int number : numbers) {
    const PoolHost* const host = parts_.roster.numbered(number);
    if (saved.ok() && host != nullptr && host->failures == 0) together.push_back(host->target);
  }
  parts_.bootstrap->expect(together);
  std::vector<int> order = numbers;
  if (saved.ok()) {
    const std::set<int> relays = parts_.relays.begin(numbers);
    serving_.insert(relays.begin(), relays.end());
    // Relays start first, because others wait for them.
    std::stable_sort(order.begin(), order.end(),
                     [&](int a, int b) { return relays.contains(a) && !relays.contains(b); });
  }
  for (const int number : order) {
    PoolHost* const host = parts_.roster.numbered(number);
    if (host == nullptr) continue;
    if (saved.ok()) {
      bootstrap(*host);
    } else {
      parts_.apply(*host, PooledHostEvent::kFailStart, saved.message());
    }
  }
}

void PoolStarts::bootstrap(PoolHost& host) {
  // StartedAgent is move-only but std::function must be copyable, so share it on its way to the loop.
  using Shared = std::shared_ptr<base::Result<StartedAgent>>;
  const auto done = gate_.wrap(
      [this, &host, number = host.number](const Shared& started) { bootstrapped(host, number, std::move(*started)); });
  const JoinSource join = joins_[host.number].get_future().share();
  parts_.relays.place(host.number, gate_.wrap([this, &host, number = host.number](const std::optional<v1::Relay>& at) {
    if (host.number != number) return;
    const PoolHost* const relay = parts_.roster.numbered(parts_.relays.parent_of(number));
    if (at && relay != nullptr) {
      parts_.note(fmt::format("{}: connects through {}", host.target.name, relay->target.name));
    }
    settle_join(number, make_join(host, at));
  }));
  parts_.bootstrap->start(host.target, join, [&loop = parts_.loop, done](base::Result<StartedAgent> started) {
    auto shared = std::make_shared<base::Result<StartedAgent>>(std::move(started));
    loop.post([done, shared] { done(shared); });
  });
}

void PoolStarts::settle_join(int number, base::Result<std::string> join) {
  const auto found = joins_.find(number);
  if (found == joins_.end()) return;
  found->second.set_value(std::move(join));
  joins_.erase(found);
}

void PoolStarts::cancel(int number) {
  serving_.erase(number);
  settle_join(number, base::cancelled("the start was ended"));
}

void PoolStarts::cancel_all() {
  for (auto& [number, join] : joins_) join.set_value(base::cancelled("the start was ended"));
  joins_.clear();
}

void PoolStarts::bootstrapped(PoolHost& host, int number, base::Result<StartedAgent> started) {
  if (host.number != number) return;  // another agent was started on the host after this one
  if (!started.ok()) return parts_.apply(host, PooledHostEvent::kFailStart, started.status().message());
  host.up.launcher_addresses = started->launcher_addresses;
  host.up.host_address = started->host_address;
  parts_.save_soon();  // the next launcherd needs the addresses, because it does not log in
  parts_.note(fmt::format("{}: agent started by {}{}", host.target.name, started->backend,
                          started->agent_sent ? ", sent to its cache first" : ", found in its cache"));
  parts_.apply(host, PooledHostEvent::kLaunch, {});
  watch_login(host, number, std::move(started->stream));
}

void PoolStarts::watch_login(PoolHost& host, int number, base::UniqueFd stream) {
  AgentChannel::Events events;
  // An agent that has dialled no longer needs its log-in. Either on_link or on_gone may come first.
  events.on_link = [&host, number](const LinkChoice&, base::UniqueFd, base::UniqueFd) {
    if (host.number == number) host.has_dialled = true;
  };
  events.on_gone = [this, &host, number](const base::Status& status) {
    if (host.number != number) return;
    // The link is calling this function, so destroy the link later.
    parts_.loop.post(gate_.wrap([&host, number] {
      if (host.number == number) host.link.reset();
    }));
    // If the agent has dialled, the end of its log-in is no failure. Its TLS handshake may still be under way.
    if (!host.has_dialled) parts_.apply(host, PooledHostEvent::kLoseLogin, status.message());
  };
  host.link = std::make_unique<AgentChannel>(parts_.loop, std::move(stream), std::move(events));
}

void PoolStarts::await_report(PoolHost& host) {
  host.timer = parts_.loop.after(kReportAfter, [this, &host] {
    parts_.apply(host, PooledHostEvent::kFailStart,
                 fmt::format("{}: the agent was started but did not report; check whether the host can connect to this "
                             "one",
                             host.target.name));
  });
}

void PoolStarts::await_last_report(PoolHost& host, const std::string& why) {
  host.timer = parts_.loop.after(kAfterLogin, [this, &host, why] {
    parts_.apply(host, PooledHostEvent::kFailStart,
                 fmt::format("{}: the agent started and ended before it reported ({}); see its messages in launcherd's "
                             "log",
                             host.target.name, why));
  });
}

void PoolStarts::retry_later(PoolHost& host) {
  host.timer = parts_.loop.after(pause_after(host.failures++),
                                 [this, &host] { parts_.apply(host, PooledHostEvent::kStart, {}); });
}

}  // namespace muster::launcherd::agents
