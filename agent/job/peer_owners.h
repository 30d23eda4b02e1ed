// Who may speak to the stores of this agent: processes of the job's user, on this host and on the job's others.
//
// A peer on this host is looked up in the kernel. For one elsewhere the launcher is asked, which asks the agents of the
// hosts that have its address (OwnerQuestion), and so is that host's agent itself, in case there is no launcher
// (owner_peers.h). Loop thread only.
//
// Anybody can connect, so questions are bounded: for each peer address, and for all of them. They are not kept for a
// launcher that is away. One that may not have been heard is asked again when a launcher is there, if its connection
// can still be waiting.
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
  std::size_t max_of_peer = 1024;  // from one address: its ranks may all come at once
  // A connection is closed without an answer by then.
  base::Duration time_limit = rendezvous::CheckedListenerLimits().check_limit;
};

class PeerOwners {
 public:
  // `own`: the addresses of this host. `ask` sends a question to the launcher; it is lost while there is none.
  PeerOwners(std::set<base::IpAddress> own, std::function<void(v1::OwnerQuestion)> ask, PeerOwnersLimits limits = {});

  // From now on other agents are asked as well, and peers that are on no host of the job are refused at once. `others`
  // outlives this object.
  void ask_others(OwnerPeers& others) { others_ = &others; }

  // Valid as long as this object.
  rendezvous::OwnerCheck check();

  // The launcher's answer to a question of ours; one that was not asked is ignored.
  void answered(const v1::OwnerAnswer& answer);
  // A launcher is there, perhaps again.
  void ask_again();
  std::size_t questions() const { return waiting_.size(); }

  // Whether it ends in a process of ours on this host; ends as the other host sees them.
  static bool is_ours(const rendezvous::ConnectionEnds& ends);
  // What this agent says to another one's question.
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
