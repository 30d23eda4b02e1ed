// Watches whether the agents of a job answer. It sends pings, suspects and probes silent hosts, and learns the offset
// between each agent's clock and this machine's clock.
//
// Owner: JobRunner's core.
// Thread: loop thread only. Callbacks may end the job. They must not destroy this object.
//
//   heard ─1 s silent─▶ suspect ─10 s─▶ probed over the bootstrap ─lease─▶ lost
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "launcherd/agents/ping_turns.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/run/host_roster.h"

namespace muster::launcherd::inline run {

inline constexpr std::chrono::milliseconds kPingPeriod{500};
inline constexpr std::chrono::milliseconds kSuspectAfter{1'000};
// If a host is silent for half its lease or for this long, probe it over the bootstrap. Its agent may have been
// stopped.
inline constexpr std::chrono::milliseconds kProbeSilent{10'000};
// Probe earlier while ranks are being stopped, so that the probe comes before stop_overdue().
inline constexpr std::chrono::milliseconds kProbeStopping{2'000};
// If the lease is shorter than this, do not probe: there is no time for a log-in.
inline constexpr std::chrono::milliseconds kShortestProbedLease{4'000};

class Liveness {
 public:
  struct Events {
    std::function<void(int agent, v1::LauncherMessage ping)> send;
    // Logs in to the host, and continues and reports stopped processes of the job.
    std::function<void(int agent, std::function<void(const base::Result<CommandResult>&)> done)> probe;
    std::function<void(JobHost& host, bool is_suspect)> suspect;
    std::function<void(JobHost& host, const std::string& why)> lease_over;
    std::function<void(const JobHost& host, const std::string& line)> warn;
    std::function<void(const std::string& line)> note;
  };

  // `hosts` is borrowed.
  Liveness(const base::Clock& clock, std::chrono::milliseconds lease, HostRoster& hosts, Events events);

  // Call this when all hosts are in the roster. Their leases begin at the call.
  void start();
  // Call this when a host was added to the roster after start().
  void add() { contacts_.push_back({.last_heard = clock_.now()}); }
  // Call it each kPingPeriod. Leases do not run while the job is suspended.
  void tick(bool is_suspended, bool is_stopping);
  void ping(const JobHost& host);

  // Call this when a stream to the agent has begun.
  void connected(const JobHost& host) { at(host).last_heard = clock_.now(); }
  // Call this when a message of the host's agent has come.
  void heard(JobHost& host);
  // From now on, does not count this much time as silence of the host.
  void grant(const JobHost& host, base::Duration time) { at(host).last_heard = clock_.now() + time; }
  // Returns true if the pong has improved what is known about the agent's clock.
  bool pong(const JobHost& host, const v1::Pong& pong);

  bool is_suspect(const JobHost& host) const { return at(host).is_suspect; }
  // Returns the ranks of all suspect hosts.
  std::set<int> silent_ranks() const;
  bool knows_clock(const JobHost& host) const { return at(host).best_round_trip != base::Duration::max(); }
  // By how much corrected() may be wrong: half of the best round trip to the agent.
  std::chrono::nanoseconds uncertainty(const JobHost& host) const {
    return knows_clock(host) ? std::chrono::nanoseconds(at(host).best_round_trip / 2) : std::chrono::nanoseconds::max();
  }
  // Converts `agent_ns`, a time of the agent's clock, to this machine's clock. Returns the present time if the agent's
  // clock is unknown or the value is no valid time.
  base::MonotonicTime corrected(const JobHost& host, std::int64_t agent_ns) const;

 private:
  struct Contact {
    base::MonotonicTime last_heard{};
    bool is_suspect = false;
    bool is_probed = false;            // a probe is under way
    base::MonotonicTime last_probe{};  // when the last probe began
    std::deque<std::int64_t> pings{};  // launcher_ns of the last pings; a Pong must answer one of them
    base::Duration best_round_trip = base::Duration::max();
    std::int64_t clock_offset_ns = 0;  // agent's monotonic clock minus ours
  };
  Contact& at(const JobHost& host) { return contacts_[static_cast<std::size_t>(host.agent)]; }
  const Contact& at(const JobHost& host) const { return contacts_[static_cast<std::size_t>(host.agent)]; }
  void set_suspect(JobHost& host, bool is_suspect);
  bool check(JobHost& host, base::MonotonicTime now, bool is_stopping);
  void probe(const JobHost& host, base::MonotonicTime now, bool is_stopping);
  void probed(const JobHost& host, const base::Result<CommandResult>& result);

  const base::Clock& clock_;
  const std::chrono::milliseconds lease_;
  HostRoster& hosts_;
  const Events events_;
  std::deque<Contact> contacts_;  // by agent
  PingTurns turns_;
  base::MonotonicTime last_tick_{};
  base::MonotonicTime runs_since_{};  // the end of this process's last stall; the epoch if there was none
};

}  // namespace muster::launcherd::run
