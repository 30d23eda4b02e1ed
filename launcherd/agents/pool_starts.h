// Starts agents: lists them in the state file, runs the bootstrap, and watches their log-in connections. Private to
// this folder.
//
// Owner: HostPool::Core.
// Thread: loop thread only. The bootstrap's threads post to it.
#pragma once

#include <string>
#include <vector>

#include "base/gate.h"
#include "launcherd/agents/pool_parts.h"

namespace muster::launcherd::inline agents {

class PoolStarts {
 public:
  explicit PoolStarts(PoolParts& parts) : parts_(parts) {}

  // Starts an agent on the host. The result is a kLaunch or kFailStart event.
  void start(PoolHost& host);
  // Arms the timer that ends the start of an agent that does not report.
  void await_report(PoolHost& host);
  // Does the same as await_report() with a shorter time, because the agent's log-in has ended for the reason `why`.
  void await_last_report(PoolHost& host, const std::string& why);
  // Arms the timer for the next attempt after a failure.
  void retry_later(PoolHost& host);

 private:
  base::Result<std::string> make_join(PoolHost& host) const;
  void start_announced();
  void bootstrap(PoolHost& host);
  void bootstrapped(PoolHost& host, int number, base::Result<StartedAgent> started);
  void watch_login(PoolHost& host, int number, base::UniqueFd stream);

  PoolParts& parts_;
  std::vector<int> announced_;  // numbers of agents that start once the state file lists them
  base::Gate gate_;
};

}  // namespace muster::launcherd::agents
