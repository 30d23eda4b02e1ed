// Starts agents: lists them in the state file, runs the bootstrap, and watches their log-in connections. Private to
// this folder.
//
// Owner: HostPool::Core.
// Thread: loop thread only. The bootstrap's threads post to it.
#pragma once

#include <future>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/gate.h"
#include "launcherd/agents/pool_parts.h"

namespace muster::launcherd::inline agents {

class PoolStarts {
 public:
  explicit PoolStarts(PoolParts& parts) : parts_(parts) {}
  ~PoolStarts() { cancel_all(); }
  PoolStarts(const PoolStarts&) = delete;
  PoolStarts& operator=(const PoolStarts&) = delete;

  // Starts an agent on the host. The result is a kLaunch or kFailStart event.
  void start(PoolHost& host);
  // Ends the wait of agents for their relay, so that no thread of the bootstrap waits for their joins.
  void cancel(int number);
  void cancel_all();
  // Arms the timer that ends the start of an agent that does not report.
  void await_report(PoolHost& host);
  // Does the same as await_report() with a shorter time, because the agent's log-in has ended for the reason `why`.
  void await_last_report(PoolHost& host, const std::string& why);
  // Arms the timer for the next attempt after a failure.
  void retry_later(PoolHost& host);

 private:
  base::Result<std::string> make_join(const PoolHost& host, const std::optional<v1::Relay>& parent) const;
  void settle_join(int number, base::Result<std::string> join);
  void start_announced();
  void bootstrap(PoolHost& host);
  void bootstrapped(PoolHost& host, int number, base::Result<StartedAgent> started);
  void watch_login(PoolHost& host, int number, base::UniqueFd stream);

  PoolParts& parts_;
  std::map<int, std::promise<base::Result<std::string>>> joins_;  // by number, until the agent's way is known
  std::set<int> serving_;                                         // agents that start as relays
  std::vector<int> announced_;  // numbers of agents that start once the state file lists them
  base::Gate gate_;
};

}  // namespace muster::launcherd::agents
