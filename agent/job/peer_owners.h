// Decides which connections this agent's stores serve: those of the job's user, from this host and from the job's
// other hosts.
//
// For a peer on this host, the kernel names the owner.
// For a peer elsewhere, the agent asks the launcher. The launcher asks the agents of the hosts that have the peer's
// address (OwnerQuestion). The agent also asks the agent of the peer's host directly, in case there is no launcher
// (owner_peers.h).
//
// Thread: the loop thread only.
// Limits: any process can connect, so the number of questions is bounded, for each peer address and in total. While
// no launcher is connected, new questions are not queued for one. When a launcher connects, the open questions are
// sent again if their connections can still be waiting.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "agent/job/owner_peers.h"
#include "base/clock.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"
#include "rendezvous/checked_listener.h"
#include "rendezvous/owner_check.h"

namespace muster::agent::inline job {

struct PeerOwnersLimits {
  std::size_t max_questions = 4096;
  std::size_t max_of_peer = 1024;  // from one address, because all ranks there may connect at once
  // A connection without an answer is closed after this time.
  base::Duration time_limit = rendezvous::CheckedListenerLimits().check_limit;
};

class PeerOwners {
 public:
  // `own` holds the addresses of this host. `ask` sends a question to the launcher; the question is lost while there
  // is no launcher.
  PeerOwners(std::set<base::IpAddress> own, std::function<void(v1::OwnerQuestion)> ask, PeerOwnersLimits limits = {});

  // Makes checks ask other agents, too, and refuse peers that are on no host of the job. `others` outlives this
  // object.
  void ask_others(OwnerPeers& others) { others_ = &others; }

  // The returned check is valid as long as this object lives.
  rendezvous::OwnerCheck check();

  // Handles the launcher's answer to one of our questions. An answer without a question is ignored.
  void answered(const v1::OwnerAnswer& answer);
  // Call this when a launcher is there, also after a cut. Open questions are sent again.
  void ask_again();
  std::size_t questions() const { return waiting_.size(); }

  // True if the connection ends in a process of our user on this host. `ends` are as the other host sees them.
  static bool is_ours(const rendezvous::ConnectionEnds& ends);
  // Returns this agent's answer to another agent's question.
  static v1::OwnerAnswer answer(const v1::OwnerQuestion& question);

 private:
  struct Waiting {
    v1::OwnerQuestion question;
    base::MonotonicTime since;
    std::function<void(bool allowed)> done;
  };

  void check(const rendezvous::ConnectionEnds& ends, std::function<void(bool allowed)> done);
  void end(std::uint64_t id, bool allowed);
  void make_room(const std::string& peer);

  const std::set<base::IpAddress> own_;
  const std::function<void(v1::OwnerQuestion)> ask_;
  const PeerOwnersLimits limits_;
  OwnerPeers* others_ = nullptr;
  std::map<std::uint64_t, Waiting> waiting_;                // oldest first
  std::map<std::string, std::set<std::uint64_t>> by_peer_;  // ids of waiting_, oldest first
  std::uint64_t next_id_ = 1;
};

}  // namespace muster::agent::job
