// All of Liveness.
// Read it in this order: tick, check, probe and probed; then heard and pong.
#include "launcherd/run/liveness.h"

#include <algorithm>
#include <utility>

#include "base/strings.h"

namespace muster::launcherd::inline run {
namespace {

// Number of pings that a Pong may still answer: four seconds at kPingPeriod.
constexpr std::size_t kMostPings = 8;
constexpr std::int64_t kLastAgentTime = std::int64_t{1} << 61;  // ns since boot: 73 years, and sums do not overflow

std::int64_t to_ns(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

bool is_time(std::int64_t agent_ns) {
  return agent_ns >= 0 && agent_ns < kLastAgentTime;
}

}  // namespace

Liveness::Liveness(const base::Clock& clock, std::chrono::milliseconds lease, HostRoster& hosts, Events events)
    : clock_(clock), lease_(lease), hosts_(hosts), events_(std::move(events)) {}

void Liveness::start() {
  last_tick_ = clock_.now();
  contacts_.assign(hosts_.size(), {.last_heard = last_tick_});
}

void Liveness::tick(bool is_suspended, bool is_stopping) {
  const base::MonotonicTime now = clock_.now();
  if (now - last_tick_ > 2 * kPingPeriod + kSuspectAfter) {
    // This process itself was stopped (Ctrl-Z, a debugger, a paused machine). Do not count that time as silence of the
    // agents. Silence from before the stall still counts.
    const base::Duration stalled = now - last_tick_ - kPingPeriod;
    for (Contact& contact : contacts_) {
      if (contact.last_heard < now) contact.last_heard = std::min(now, contact.last_heard + stalled);
    }
    runs_since_ = now;
  }
  last_tick_ = now;
  turns_.next(hosts_.size(), is_stopping ? 0 : lease_ / kPingPeriod);
  for (const JobHost& host : hosts_) {
    if (host.has_stream && turns_.is_due(static_cast<std::size_t>(host.agent))) ping(host);
  }
  if (is_suspended) return;
  for (JobHost& host : hosts_) {
    if (is_watched(host.phase) && !check(host, now, is_stopping)) return;
  }
}

void Liveness::ping(const JobHost& host) {
  Contact& contact = at(host);
  v1::LauncherMessage message;
  const std::int64_t now_ns = to_ns(clock_.now());
  contact.pings.push_back(now_ns);
  if (contact.pings.size() > kMostPings) contact.pings.pop_front();
  message.mutable_ping()->set_launcher_ns(now_ns);
  events_.send(host.agent, std::move(message));
}

// Returns false if the host was lost. The loss may have ended the job, so tick() then leaves other hosts to the next
// tick.
bool Liveness::check(JobHost& host, base::MonotonicTime now, bool is_stopping) {
  const Contact& contact = at(host);
  const base::Duration silent = now - contact.last_heard;
  const long lease_s = std::chrono::duration_cast<std::chrono::seconds>(lease_).count();
  if (silent > lease_) {
    events_.lease_over(
        host,
        fmt::format("{}: not heard of for {} s (its lease); {}: check the host and its network", host.name, lease_s,
                    host.phase == HostPhase::kDraining ? "its ranks have ended, but not all that they wrote has come"
                                                       : "its agent has ended its ranks by itself if it still runs"));
    return false;
  }
  probe(host, now, is_stopping);
  // After a stall of this process, do not suspect the host at once. Queued messages must be read first, and the agent
  // may have to reconnect.
  const base::Duration suspect_after = kSuspectAfter + kPingPeriod * turns_.count();
  if (std::min(silent, now - runs_since_) > suspect_after && !contact.is_suspect) {
    set_suspect(host, true);
    events_.warn(host, fmt::format("{} does not answer; waiting up to {} s for it", host.name, lease_s));
  }
  return true;
}

// Probes a silent host over the bootstrap. If its agent and warden are stopped, only this probe continues them. The
// probe also ends what dead agents have left.
void Liveness::probe(const JobHost& host, base::MonotonicTime now, bool is_stopping) {
  Contact& contact = at(host);
  const auto patience = is_stopping ? kProbeStopping : kProbeSilent;
  // A host is not silent between two pings.
  const base::Duration after = std::min<base::Duration>(lease_ / 2, patience + kPingPeriod * (turns_.count() - 1));
  const base::Duration silent = std::min(now - contact.last_heard, now - runs_since_);
  if (lease_ < kShortestProbedLease || contact.is_probed || host.phase != HostPhase::kLaunched) return;
  if (silent < after || now - contact.last_probe < after) return;
  contact.is_probed = true;
  contact.last_probe = now;
  events_.probe(host.agent, [this, agent = host.agent](const base::Result<CommandResult>& result) {
    probed(hosts_.at(agent), result);
  });
}

void Liveness::probed(const JobHost& host, const base::Result<CommandResult>& result) {
  at(host).is_probed = false;
  if (!result.ok() || host.phase != HostPhase::kLaunched) return;
  for (const std::string_view line : base::split(base::trim(result->errors), '\n')) {
    if (line.empty()) continue;
    const std::string report = fmt::format("{}: {}", host.name, base::printable(line));
    const bool was_stopped = line.find("was stopped") != std::string_view::npos;
    was_stopped ? events_.warn(host, report) : events_.note(report);
  }
}

void Liveness::heard(JobHost& host) {
  at(host).last_heard = clock_.now();
  if (!at(host).is_suspect) return;
  set_suspect(host, false);
  events_.warn(host, fmt::format("{}: answers again", host.name));
}

void Liveness::set_suspect(JobHost& host, bool is_suspect) {
  at(host).is_suspect = is_suspect;
  events_.suspect(host, is_suspect);
}

std::set<int> Liveness::silent_ranks() const {
  std::set<int> silent;
  for (const JobHost& host : hosts_) {
    if (is_suspect(host) && host.phase == HostPhase::kLaunched) silent.insert(host.ranks.begin(), host.ranks.end());
  }
  return silent;
}

bool Liveness::pong(const JobHost& host, const v1::Pong& pong) {
  Contact& contact = at(host);
  if (!is_time(pong.agent_ns()) || std::ranges::find(contact.pings, pong.launcher_ns()) == contact.pings.end()) {
    return false;
  }
  const std::int64_t now_ns = to_ns(clock_.now());
  const base::Duration round_trip = std::chrono::nanoseconds(now_ns - pong.launcher_ns());
  if (round_trip > contact.best_round_trip) return false;
  contact.best_round_trip = round_trip;
  // Assume that the agent read its clock in the middle of the fastest round trip so far.
  contact.clock_offset_ns = pong.agent_ns() - (pong.launcher_ns() + now_ns) / 2;
  return true;
}

base::MonotonicTime Liveness::corrected(const JobHost& host, std::int64_t agent_ns) const {
  if (!knows_clock(host) || !is_time(agent_ns)) return clock_.now();
  return base::MonotonicTime(
      std::chrono::duration_cast<base::Duration>(std::chrono::nanoseconds(agent_ns - at(host).clock_offset_ns)));
}

}  // namespace muster::launcherd::run
