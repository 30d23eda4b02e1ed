// Renews the certificates of the pool and of its agents while both run (link_keys.h). Private to this folder.
//
// Owner: HostPool::Core.
// Thread: loop thread only.
#pragma once

#include "base/clock.h"
#include "launcherd/agents/pool_parts.h"

namespace muster::launcherd::inline agents {

class PoolKeys {
 public:
  explicit PoolKeys(PoolParts& parts) : parts_(parts) {}

  // Does the next step of a renewal if it is due. Call it at each tick.
  void renew(base::MonotonicTime now);
  // Sends the next certificate to the agent, if it lacks that certificate. Call it only once the agent has joined.
  void offer(PoolHost& host);

 private:
  bool all_have_next() const;

  PoolParts& parts_;
  base::MonotonicTime again_{};  // make no attempt before this time
};

}  // namespace muster::launcherd::agents
