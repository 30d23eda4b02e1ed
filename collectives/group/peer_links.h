// The links of a communicator, each made at its first use. Ranks of this host use rings in shared memory, others TCP.
// Collectives and messages have separate links, so that neither waits for the other.
// Thread: one at a time.
#pragma once

#include <poll.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "collectives/group/world.h"
#include "collectives/transport/host_team.h"
#include "collectives/transport/link.h"
#include "collectives/transport/peers.h"

namespace muster::collectives::inline group {

class PeerLinks final : public Peers {
 public:
  // `members` are ranks of the world, indexed by rank here. `local` are those of them in `team`, indexed by local rank.
  // All arguments must outlive this object.
  PeerLinks(World& world, HostTeam& team, const std::vector<int>& members, const std::vector<int>& local,
            std::string communicator, int rank, const WaitPolicy& policy, RingUse use);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  base::Result<Link*> link(int peer) override;
  // Does what link() does, without waiting. Returns nullptr while the link is being made. Use either this or link().
  base::Result<Link*> try_link(int peer);
  // Returns the event that try_link() waits for, as an entry for poll(). fd is -1 if try_link() waits for the peer to
  // connect, which cannot be polled.
  pollfd poll_entry(int peer) const;
  // Returns whether the peer runs on this host.
  bool is_local(int peer) const { return local_rank_of_[static_cast<std::size_t>(peer)] >= 0; }
  std::string name(int peer) const override;
  int world_rank(int peer) const override { return members_[static_cast<std::size_t>(peer)]; }
  std::string host(int peer) const override { return world_.member(world_rank(peer)).host; }
  bool is_gone(int peer) const override { return world_.end_of(world_rank(peer)).has_value(); }
  const WaitPolicy& policy() const override { return policy_; }
  const AbortRecord& abort() const override { return team_.abort(); }
  Flag& bell() override { return team_.segment().lane(team_.rank()).bell; }

 private:
  struct Dialing {
    Handshake handshake;
    short events = POLLOUT;
  };

  base::Result<std::unique_ptr<Link>> make(int peer);
  std::unique_ptr<Link> make_ring(int peer, int local_peer);
  base::Result<std::unique_ptr<Link>> make_tcp(int peer, Connection connection);
  // Both return an invalid descriptor while the connection is not complete.
  base::Result<Connection> try_call(int peer);
  base::Result<Connection> try_answer(int peer);

  World& world_;
  HostTeam& team_;
  const std::vector<int>& members_;
  const std::string communicator_;
  const int rank_;
  const WaitPolicy& policy_;
  const RingUse use_;
  std::vector<int> local_rank_of_;  // by rank of this communicator; -1 if the rank is on another host
  std::map<int, Dialing> calls_;    // calls that are in progress, by rank of this communicator
  std::vector<std::unique_ptr<Link>> links_;
};

// A subset of another Peers' ranks, in its own order.
class SomePeers final : public Peers {
 public:
  // `ranks` are ranks of `all` and include this rank. `all` must outlive this object.
  SomePeers(Peers& all, std::vector<int> ranks);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(ranks_.size()); }
  base::Result<Link*> link(int peer) override { return all_.link(of(peer)); }
  std::string name(int peer) const override { return all_.name(of(peer)); }
  int world_rank(int peer) const override { return all_.world_rank(of(peer)); }
  std::string host(int peer) const override { return all_.host(of(peer)); }
  bool is_gone(int peer) const override { return all_.is_gone(of(peer)); }
  const WaitPolicy& policy() const override { return all_.policy(); }
  const AbortRecord& abort() const override { return all_.abort(); }
  Flag& bell() override { return all_.bell(); }

 private:
  int of(int peer) const { return ranks_[static_cast<std::size_t>(peer)]; }

  Peers& all_;
  const std::vector<int> ranks_;
  int rank_ = 0;
};

}  // namespace muster::collectives::group
