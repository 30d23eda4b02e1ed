// Agents of many hosts in one process: each has the real control client (agent/link), with its own TLS session to
// launcherd. They have no hosts and no ranks, and answer as agents do whose every step succeeds at once. All run on one
// loop, on a thread of its own. With relays, some agents are the relays of the others (simulated_relay.h): launcherd
// has one connection for each relay, beside those of the relays' own agents.
//
// launcherd takes them for agents of a launcherd before it, which is why it starts none over ssh: pool_state() is what
// that one would have left in <state>/agents.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "bench/simulated_relay.h"
#include "proto/muster/v1/pool.pb.h"

namespace muster::bench {

// Agents with new tokens, on ports that nobody may have yet.
base::Result<v1::PoolState> pool_state(int agents);

class SimulatedAgent;

// Used by one thread.
class SimulatedAgents {
 public:
  // They dial at once, at most `dialling` at a time. The first `relays` agents are relays for all others. `state`
  // outlives this.
  static base::Result<std::unique_ptr<SimulatedAgents>> start(const v1::PoolState& state, int dialling, int relays);
  ~SimulatedAgents();

  // Until launcherd has welcomed every one.
  base::Status wait_until_welcome_blocking(std::chrono::seconds patience);
  // Until a launcherd other than the first has welcomed every one.
  base::Status wait_until_back_blocking(std::chrono::seconds patience);
  // All ranks end with exit code 0, each host's by a timer of its agent; returned: when they are due.
  std::chrono::steady_clock::time_point end_ranks();
  // Connections that were lost after their Welcome.
  int cuts() const;

 private:
  explicit SimulatedAgents(const v1::PoolState& state);
  void dial_next();
  void welcomed(bool is_first);
  void came_back();
  base::Status wait_blocking(const int& count, std::chrono::seconds patience);
  void was_cut();

  const v1::PoolState& state_;
  base::Loop loop_;
  std::vector<std::unique_ptr<SimulatedRelay>> relays_;  // loop thread, as the next
  std::vector<std::unique_ptr<SimulatedAgent>> agents_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int welcome_ = 0;  // these three: under mutex_
  int back_ = 0;
  int cuts_ = 0;
  std::thread thread_;
};

}  // namespace muster::bench
