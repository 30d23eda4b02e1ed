#include "rendezvous/horovod_origin.h"

#include <utility>

#include "rendezvous/horovod_upstream.h"

namespace muster::rendezvous {

HorovodOrigin::HorovodOrigin(base::Loop& loop, base::UniqueFd listening, HorovodStore& store, OwnerCheck check,
                             HorovodOriginLimits limits)
    : loop_(loop),
      store_(store),
      limits_(limits),
      listener_(
          loop, std::move(listening), std::move(check), [this](base::UniqueFd fd) { accepted(std::move(fd)); },
          limits.listener) {}

HorovodOrigin::~HorovodOrigin() {
  while (!peers_.empty()) closed(peers_.begin()->first);
}

HorovodOriginCounts HorovodOrigin::counts() const {
  HorovodOriginCounts counts = counts_;
  counts.links = peers_.size();
  return counts;
}

void HorovodOrigin::accepted(base::UniqueFd fd) {
  if (peers_.size() >= limits_.max_links) {  // more than a job has hosts; a cache that is refused tries again
    ++counts_.lost_links;
    return;
  }
  const std::uint64_t id = next_peer_++;
  Peer& peer = peers_[id];
  HorovodLink::Events events;
  events.on_frame = [this, &peer](const HorovodFrame& frame) { return on_frame(peer, frame); };
  events.on_closed = [this, id](const base::Status&) {
    ++counts_.lost_links;  // the cache reconnects by itself
    closed(id);
  };
  peer.link =
      std::make_unique<HorovodLink>(loop_, std::move(fd), limits_.store, limits_.max_queued_bytes, std::move(events));
}

void HorovodOrigin::closed(std::uint64_t id) {
  const auto at = peers_.find(id);
  for (const auto& [scope, watch] : at->second.follows) store_.unwatch(scope, watch);
  peers_.erase(at);
}

base::Status HorovodOrigin::on_frame(Peer& peer, const HorovodFrame& frame) {
  ++counts_.requests;
  switch (frame.kind) {
    case HorovodFrameKind::kPut: {
      peer.is_putting = true;
      const base::Status put = store_.put(frame.scope, frame.key, make_horovod_value(std::string(frame.value)));
      peer.is_putting = false;
      peer.link->send({.kind = HorovodFrameKind::kDone, .id = frame.id, .code = put.code()},
                      make_horovod_value(put.message()));
      return base::ok_status();
    }
    case HorovodFrameKind::kFinish:
      store_.finish(frame.scope, frame.key);
      peer.link->send({.kind = HorovodFrameKind::kDone, .id = frame.id}, nullptr);
      return base::ok_status();
    case HorovodFrameKind::kFollow:
      return follow(peer, frame.scope);
    default:
      return base::invalid_argument("Horovod origin: a cache sent a frame of kind {}", static_cast<int>(frame.kind));
  }
}

base::Status HorovodOrigin::follow(Peer& peer, std::string_view scope) {
  if (peer.follows.contains(scope)) {
    return base::invalid_argument("Horovod origin: a cache follows a scope twice");
  }
  if (peer.follows.size() >= kMaxFollowedScopes) {
    return base::resource_exhausted("Horovod origin: a cache follows more than {} scopes", kMaxFollowedScopes);
  }
  peer.link->send({.kind = HorovodFrameKind::kBegin, .scope = scope}, nullptr);
  const auto watch = store_.watch(scope, [this, &peer, name = std::string(scope)](const HorovodStore::Change& change) {
    send_change(peer, name, change);
  });
  peer.link->send({.kind = HorovodFrameKind::kSynced, .scope = scope}, nullptr);
  peer.follows.emplace(scope, watch);
  return base::ok_status();
}

void HorovodOrigin::send_change(Peer& peer, std::string_view scope, const HorovodStore::Change& change) {
  HorovodFrame frame{.scope = scope, .key = change.key};
  HorovodValue value = change.value;
  switch (change.kind) {
    case HorovodStore::Change::Kind::kSet:
      if (peer.is_putting) return;
      frame.kind = HorovodFrameKind::kSet;
      if (HorovodValue packed = packer_.packed(value); packed != nullptr) {
        frame.kind = HorovodFrameKind::kSetPacked;
        value = std::move(packed);
      }
      counts_.sent_bytes += value->size();
      break;
    case HorovodStore::Change::Kind::kErased:
      frame.kind = HorovodFrameKind::kErased;
      break;
    case HorovodStore::Change::Kind::kCleared:
      frame.kind = HorovodFrameKind::kCleared;
      break;
  }
  ++counts_.changes;
  peer.link->send(frame, std::move(value));
}

}  // namespace muster::rendezvous
