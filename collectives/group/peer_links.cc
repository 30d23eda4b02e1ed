#include "collectives/group/peer_links.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "collectives/transport/ring_link.h"
#include "collectives/transport/sealed_link.h"
#include "collectives/transport/tcp_link.h"

namespace muster::collectives::inline group {

static_assert(RingLink::bytes_of_ring(kRingCapacity) <= kRingBytes);

PeerLinks::PeerLinks(World& world, HostTeam& team, const std::vector<int>& members, const std::vector<int>& local,
                     std::string communicator, int rank, const WaitPolicy& policy, RingUse use)
    : world_(world),
      team_(team),
      members_(members),
      communicator_(std::move(communicator)),
      rank_(rank),
      policy_(policy),
      use_(use),
      local_rank_of_(members.size(), -1),
      links_(members.size()) {
  for (std::size_t i = 0; i < local.size(); ++i) {
    local_rank_of_[static_cast<std::size_t>(local[i])] = static_cast<int>(i);
  }
}

std::string PeerLinks::name(int peer) const {
  return fmt::format("rank {} ({})", world_rank(peer), host(peer));
}

base::Result<Link*> PeerLinks::link(int peer) {
  std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
  if (link == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(link, make(peer));
  }
  return link.get();
}

base::Result<std::unique_ptr<Link>> PeerLinks::make(int peer) {
  const int local_peer = local_rank_of_[static_cast<std::size_t>(peer)];
  if (local_peer >= 0) return make_ring(peer, local_peer);
  // The higher rank connects, the lower one accepts.
  const bool is_caller = rank_ > peer;
  base::Result<Connection> made = is_caller
                                      ? world_.connect_to(world_rank(peer), communicator_, abort())
                                      : world_.service().take_link(communicator_, world_rank(peer), policy_.deadline,
                                                                   abort(), [this, peer] { return is_gone(peer); });
  if (!made.ok()) {
    const bool is_named = is_caller || abort().is_raised();
    return is_named ? made.status() : made.status().with_context(host(peer));
  }
  return make_tcp(peer, std::move(*made));
}

base::Result<std::unique_ptr<Link>> PeerLinks::make_tcp(int peer, Connection connection) {
  if (connection.keys) {
    const base::Status applied = apply(world_.tcp_options(), connection.socket.get());
    if (!applied.ok()) return applied.with_context("connection to " + name(peer));
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Link> sealed,
                            SealedLink::create(std::move(connection.socket), *connection.keys, name(peer)));
    return sealed;
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Link> link,
                          TcpLink::create(std::move(connection.socket), name(peer), world_.tcp_options()));
  return link;
}

base::Result<Link*> PeerLinks::try_link(int peer) {
  std::unique_ptr<Link>& link = links_[static_cast<std::size_t>(peer)];
  if (link != nullptr) return link.get();
  if (is_local(peer)) {
    link = make_ring(peer, local_rank_of_[static_cast<std::size_t>(peer)]);
    return link.get();
  }
  auto made = rank_ > peer ? try_call(peer) : try_answer(peer);
  if (!made.ok()) return made.status().with_context(name(peer));
  if (!made->socket.valid()) return nullptr;
  MUSTER_ASSIGN_OR_RETURN(link, make_tcp(peer, std::move(*made)));
  return link.get();
}

base::Result<Connection> PeerLinks::try_call(int peer) {
  auto call = calls_.find(peer);
  if (call == calls_.end()) {
    MUSTER_ASSIGN_OR_RETURN(Handshake begun, world_.begin_call(world_rank(peer), communicator_));
    call = calls_.emplace(peer, Dialing{std::move(begun)}).first;
  }
  MUSTER_ASSIGN_OR_RETURN(const Handshake::Turn turn, call->second.handshake.step());
  call->second.events = turn == Handshake::Turn::kWantsRead ? POLLIN : POLLOUT;
  if (turn != Handshake::Turn::kDone) return Connection();
  Connection made = call->second.handshake.take_connection();
  calls_.erase(call);
  return made;
}

base::Result<Connection> PeerLinks::try_answer(int peer) {
  auto link = world_.service().take_link(communicator_, world_rank(peer), std::chrono::milliseconds(0), abort());
  if (!link.ok() && link.status().code() == base::Code::kDeadlineExceeded) return Connection();
  return link;
}

pollfd PeerLinks::poll_entry(int peer) const {
  const auto call = calls_.find(peer);
  return call == calls_.end() ? pollfd{-1, 0, 0} : pollfd{call->second.handshake.fd(), call->second.events, 0};
}

std::unique_ptr<Link> PeerLinks::make_ring(int peer, int local_peer) {
  const Segment& segment = team_.segment();
  auto& outgoing = *reinterpret_cast<RingHead*>(segment.ring(team_.rank(), local_peer, use_).data());
  auto& incoming = *reinterpret_cast<RingHead*>(segment.ring(local_peer, team_.rank(), use_).data());
  return std::make_unique<RingLink>(outgoing, incoming, kRingCapacity, segment.lane(local_peer).bell, name(peer));
}

SomePeers::SomePeers(Peers& all, std::vector<int> ranks) : all_(all), ranks_(std::move(ranks)) {
  const auto own = std::find(ranks_.begin(), ranks_.end(), all_.rank());
  MUSTER_CHECK(own != ranks_.end());
  rank_ = static_cast<int>(own - ranks_.begin());
}

}  // namespace muster::collectives::group
