#include "rendezvous/horovod_origin.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "rendezvous/horovod_upstream.h"
#include "rendezvous/host_meetings.h"
#include "rendezvous/stream_uplink.h"

namespace muster::rendezvous {
namespace {

constexpr std::size_t kMostStreams = 1 << 16;  // of one link; each is a client of torch's store

}  // namespace

HorovodOrigin::HorovodOrigin(base::Loop& loop, base::UniqueFd listening, HorovodSource& source, OwnerCheck check,
                             HorovodOriginLimits limits)
    : loop_(loop),
      source_(source),
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
  const auto ends = connection_ends(fd.get());
  if (ends.ok()) peer.where = ends->peer.str();
  HorovodLink::Events events;
  events.on_frame = [this, id](const HorovodFrame& frame) { return on_frame(id, frame); };
  events.on_closed = [this, id](const base::Status& why) { lost(id, why); };
  peer.link =
      std::make_unique<HorovodLink>(loop_, std::move(fd), limits_.store, limits_.max_queued_bytes, std::move(events));
}

// The cache reconnects by itself. An error of the network is no problem to report, because a job's end looks the same.
void HorovodOrigin::lost(std::uint64_t id, const base::Status& why) {
  ++counts_.lost_links;
  if (limits_.on_problem && why.code() != base::Code::kUnavailable) {
    limits_.on_problem(
        base::Status(why.code(), fmt::format("closed the connection of the job's host at {}, which shares the job's "
                                             "keys: {}",
                                             peers_.at(id).where, why.message())));
  }
  closed(id);
}

void HorovodOrigin::closed(std::uint64_t id) {
  const auto at = peers_.find(id);
  for (const auto& [scope, watch] : at->second.follows) source_.unwatch(scope, watch);
  for (const auto& [stream, up] : at->second.streams) streams_->close(up.up);
  const auto child = children_.find(at->second.child);
  if (child != children_.end() && child->second == id) children_.erase(child);
  peers_.erase(at);
}

base::Status HorovodOrigin::on_frame(std::uint64_t id, const HorovodFrame& frame) {
  ++counts_.requests;
  Peer& peer = peers_.at(id);
  switch (frame.kind) {
    case HorovodFrameKind::kPut: {
      const auto follows = peer.follows.find(frame.scope);
      source_.put_from(follows == peer.follows.end() ? 0 : follows->second, frame.scope, frame.key,
                       make_horovod_value(std::string(frame.value)), answer_to(id, frame.id));
      return base::ok_status();
    }
    case HorovodFrameKind::kFinish:
      source_.finish(frame.scope, frame.key, answer_to(id, frame.id));
      return base::ok_status();
    case HorovodFrameKind::kFollow:
      return follow(peer, frame.scope);
    case HorovodFrameKind::kEnter:
      return enter(id, frame);
    case HorovodFrameKind::kStreamOpen:
    case HorovodFrameKind::kStreamBytes:
    case HorovodFrameKind::kStreamCredit:
    case HorovodFrameKind::kStreamClose:
    case HorovodFrameKind::kStreamAsk:
      return on_stream(id, frame);
    default:
      return base::invalid_argument("Horovod origin: a cache sent a frame of kind {}", static_cast<int>(frame.kind));
  }
}

HorovodSource::Done HorovodOrigin::answer_to(std::uint64_t id, std::uint64_t request) {
  return gate_.wrap([this, id, request](const base::Status& status) {
    const auto peer = peers_.find(id);
    if (peer == peers_.end()) return;  // its link is lost
    peer->second.link->send({.kind = HorovodFrameKind::kDone, .id = request, .code = status.code()},
                            make_horovod_value(status.message()));
  });
}

base::Status HorovodOrigin::follow(Peer& peer, std::string_view scope) {
  if (peer.follows.contains(scope)) {
    return base::invalid_argument("Horovod origin: a cache follows a scope twice");
  }
  if (peer.follows.size() >= kMaxFollowedScopes) {
    return base::resource_exhausted("Horovod origin: a cache follows more than {} scopes", kMaxFollowedScopes);
  }
  const auto watch = source_.watch(scope, [this, &peer, name = std::string(scope)](const HorovodChange& change) {
    send_change(peer, name, change);
  });
  if (watch == 0) return base::resource_exhausted("Horovod origin: this host follows too many scopes");
  peer.follows.emplace(scope, watch);
  return base::ok_status();
}

base::Status HorovodOrigin::enter(std::uint64_t id, const HorovodFrame& frame) {
  if (meetings_ == nullptr) return base::invalid_argument("Horovod origin: a fence, but the job's hosts form no tree");
  return meetings_->from_child(frame.key, frame.id, frame.value, [this, id](int child) -> base::Status {
    Peer& peer = peers_.at(id);
    if (peer.child >= 0 && peer.child != child) {
      return base::invalid_argument("it entered a fence as host {} and now as host {}", peer.child, child);
    }
    peer.child = child;
    children_[child] = id;
    return base::ok_status();
  });
}

void HorovodOrigin::send_met(int child, std::string_view name, std::uint64_t number, HorovodValue part) {
  const auto found = children_.find(child);
  if (found == children_.end()) return;  // a child whose link is lost enters again
  counts_.sent_bytes += part->size();
  peers_.at(found->second).link->send({.kind = HorovodFrameKind::kMet, .id = number, .key = name}, std::move(part));
}

base::Status HorovodOrigin::on_stream(std::uint64_t id, const HorovodFrame& frame) {
  if (streams_ == nullptr) return base::invalid_argument("Horovod origin: a stream, but this host serves none");
  if (frame.kind == HorovodFrameKind::kStreamOpen) return open_stream(id, frame);
  Stream* const stream = find_stream(id, frame.id);
  if (stream == nullptr) return base::ok_status();  // it was closed here while the frame was under way
  const ByteStreams::Id up = stream->up;
  if (frame.kind == HorovodFrameKind::kStreamClose) {
    peers_.at(id).streams.erase(frame.id);
    streams_->close(up);
    return base::ok_status();
  }
  if (frame.kind == HorovodFrameKind::kStreamAsk) {
    streams_->ask_wait(up, gate_.wrap([this, id, number = frame.id](const std::optional<StreamWait>& wait) {
      send_stream(id, {.kind = HorovodFrameKind::kStreamWait, .id = number}, encode_stream_wait(wait));
    }));
    return base::ok_status();
  }
  if (frame.kind == HorovodFrameKind::kStreamCredit) {
    const auto size = parse_stream_credit(frame.value);
    if (!size) return base::invalid_argument("Horovod origin: a stream's window that is none");
    streams_->credit(up, *size);
    return base::ok_status();
  }
  if (frame.value.size() > std::min(stream->window, kStreamPiece)) {
    return base::invalid_argument("Horovod origin: a stream sends {} bytes, more than its window of {}",
                                  frame.value.size(), stream->window);
  }
  stream->window -= frame.value.size();
  streams_->send(up, frame.value);
  return base::ok_status();
}

base::Status HorovodOrigin::open_stream(std::uint64_t id, const HorovodFrame& frame) {
  Peer& peer = peers_.at(id);
  if (peer.streams.contains(frame.id)) return base::invalid_argument("Horovod origin: a stream is opened twice");
  if (peer.streams.size() >= kMostStreams) {
    return base::resource_exhausted("Horovod origin: a host opens more than {} streams", kMostStreams);
  }
  const std::uint64_t stream = frame.id;
  ByteStreams::Events events;
  events.on_bytes = gate_.wrap([this, id, stream](std::string_view bytes) {
    send_stream(id, {.kind = HorovodFrameKind::kStreamBytes, .id = stream}, make_horovod_value(std::string(bytes)));
  });
  events.on_credit = gate_.wrap([this, id, stream](std::size_t size) {
    if (Stream* const at = find_stream(id, stream); at != nullptr) at->window += size;
    send_stream(id, {.kind = HorovodFrameKind::kStreamCredit, .id = stream}, stream_credit(size));
  });
  events.on_closed = gate_.wrap([this, id, stream] {
    send_stream(id, {.kind = HorovodFrameKind::kStreamClose, .id = stream}, nullptr);
    if (const auto at = peers_.find(id); at != peers_.end()) at->second.streams.erase(stream);
  });
  peer.streams[stream].up = streams_->open(frame.key, std::move(events));
  return base::ok_status();
}

HorovodOrigin::Stream* HorovodOrigin::find_stream(std::uint64_t id, std::uint64_t stream) {
  const auto peer = peers_.find(id);
  if (peer == peers_.end()) return nullptr;
  const auto found = peer->second.streams.find(stream);
  return found == peer->second.streams.end() ? nullptr : &found->second;
}

void HorovodOrigin::send_stream(std::uint64_t id, const HorovodFrame& frame, HorovodValue value) {
  if (find_stream(id, frame.id) != nullptr) peers_.at(id).link->send(frame, std::move(value));
}

void HorovodOrigin::send_change(Peer& peer, std::string_view scope, const HorovodChange& change) {
  HorovodFrame frame{.scope = scope, .key = change.key};
  HorovodValue value = change.value;
  switch (change.kind) {
    case HorovodChange::Kind::kBegin:
      peer.link->send({.kind = HorovodFrameKind::kBegin, .scope = scope}, nullptr);
      return;
    case HorovodChange::Kind::kSynced:
      peer.link->send({.kind = HorovodFrameKind::kSynced, .scope = scope}, nullptr);
      return;
    case HorovodChange::Kind::kSet:
      frame.kind = HorovodFrameKind::kSet;
      if (HorovodValue packed = packer_.packed(value); packed != nullptr) {
        frame.kind = HorovodFrameKind::kSetPacked;
        value = std::move(packed);
      }
      counts_.sent_bytes += value->size();
      break;
    case HorovodChange::Kind::kErased:
      frame.kind = HorovodFrameKind::kErased;
      break;
    case HorovodChange::Kind::kCleared:
      frame.kind = HorovodFrameKind::kCleared;
      break;
  }
  ++counts_.changes;
  peer.link->send(frame, std::move(value));
}

}  // namespace muster::rendezvous
