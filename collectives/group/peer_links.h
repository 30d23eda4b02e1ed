// The links of a communicator: rings of shared memory to ranks of this host, TCP to others, made when first needed.
// Collectives and messages have links of their own, so that neither waits for the other. One thread at a time.
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
  // `members`: ranks of the world, by rank here. `local`: which of them are in `team`, by local rank. All outlive it.
  PeerLinks(World& world, HostTeam& team, const std::vector<int>& members, const std::vector<int>& local,
            std::string communicator, int rank, const WaitPolicy& policy, RingUse use);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }
  base::Result<Link*> link(int peer) override;
  // Without waiting; nullptr: it is being made. Either this or link().
  base::Result<Link*> try_link(int peer);
  // What try_link() waits for, to poll; fd -1: a call of the peer's, which cannot be polled for.
  pollfd coming(int peer) const;
  // Whether it is on this host.
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
  // No valid descriptor: not yet.
  base::Result<Connection> try_call(int peer);
  base::Result<Connection> try_answer(int peer);

  World& world_;
  HostTeam& team_;
  const std::vector<int>& members_;
  const std::string communicator_;
  const int rank_;
  const WaitPolicy& policy_;
  const RingUse use_;
  std::vector<int> local_rank_of_;  // by rank here; -1: on another host
  std::map<int, Dialing> calls_;    // under way, by rank here
  std::vector<std::unique_ptr<Link>> links_;
};

// Some of another's ranks, in an order of their own.
class SomePeers final : public Peers {
 public:
  // `ranks`: of `all`, this rank among them. `all` outlives it.
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
