// Who may speak to the stores of this agent: processes of the job's user, on this host and on the job's others.
//
// A peer on this host is looked up in the kernel; for one elsewhere the launcher is asked, which asks the agents of the
// hosts that have its address (OwnerQuestion). Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>

#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/owner_check.h"

namespace muster::agent {

class PeerOwners {
 public:
  // `own`: the addresses of this host. `ask` sends a question to the launcher.
  PeerOwners(std::set<base::IpAddress> own, std::function<void(v1::OwnerQuestion)> ask);

  // Valid as long as this object.
  rendezvous::OwnerCheck check();

  // The launcher's answer to a question of ours; one that was not asked is ignored.
  void answered(const v1::OwnerAnswer& answer);

  // What this agent says to another one's question.
  static v1::OwnerAnswer answer(const v1::OwnerQuestion& question);

 private:
  void check(const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done);

  const std::set<base::IpAddress> own_;
  const std::function<void(v1::OwnerQuestion)> ask_;
  std::map<std::uint64_t, std::function<void(bool allowed)>> waiting_;  // oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace muster::agent
