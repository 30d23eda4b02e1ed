// The session's host without a launcher: peers, their keys and waits, and reports of ended ranks. Read on_ready() and
// handle() first, then hello(), put() and wait(), then remove() and report_end().
#include "collectives/join/session_host.h"

#include <algorithm>
#include <utility>

namespace muster::collectives::inline join {
namespace {

using rendezvous::SessionMessage;

constexpr std::size_t kMaxProblems = 100;

base::Status breach(int rank, std::string_view what) {
  return base::invalid_argument("session of rank {}: {}", rank, what);
}

}  // namespace

struct SessionHost::Peer {
  Peer(int the_rank, base::UniqueFd socket, std::size_t max_queued_bytes)
      : rank(the_rank), stream(std::move(socket), max_queued_bytes) {}

  const int rank;
  rendezvous::SessionStream stream;
  bool has_sent_hello = false;
  bool has_sent_goodbye = false;
  std::uint32_t generation = 0;
  // The peer's unanswered waits, by their ids.
  std::map<std::uint64_t, std::multimap<std::string, Wait>::iterator> waits;
};

SessionHost::SessionHost(int size, SessionHostLimits limits) : size_(size), limits_(limits) {}

SessionHost::~SessionHost() = default;

void SessionHost::add(int rank, base::UniqueFd socket) {
  const auto own = std::ranges::count_if(peers_, [rank](const auto& entry) { return entry.second->rank == rank; });
  if (rank < 0 || rank >= size_ || static_cast<std::size_t>(own) >= limits_.max_connections_of_rank) {
    if (problems_.size() < kMaxProblems) {
      problems_.push_back(
          base::resource_exhausted("session of rank {}: refused; the world has ranks 0 to {}, with at most {} "
                                   "connections each",
                                   rank, size_ - 1, limits_.max_connections_of_rank));
    }
    return;
  }
  const int fd = socket.get();
  peers_[fd] = std::make_unique<Peer>(rank, std::move(socket), limits_.max_queued_bytes);
}

void SessionHost::add_polls(std::vector<pollfd>& slots) const {
  for (const auto& [fd, peer] : peers_) {
    slots.push_back({fd, static_cast<short>(peer->stream.wants_write() ? POLLIN | POLLOUT : POLLIN), 0});
  }
}

void SessionHost::drop(int rank) {
  for (;;) {
    const auto found = std::ranges::find_if(peers_, [rank](const auto& entry) { return entry.second->rank == rank; });
    if (found == peers_.end()) break;
    remove(*found->second, base::unavailable("its process has ended"));
  }
  drop_broken();
}

void SessionHost::on_ready(int fd) {
  const auto found = peers_.find(fd);
  if (found == peers_.end()) return;
  Peer& peer = *found->second;
  const base::Status flushed = peer.stream.flush();
  base::Status status = read(peer);
  if (status.ok()) status = flushed;
  if (!status.ok()) remove(peer, status);
  drop_broken();
}

base::Status SessionHost::read(Peer& peer) {
  const auto read = peer.stream.read([&](SessionMessage message) { return handle(peer, std::move(message)); });
  if (read.ok() && !*read) return base::unavailable("closed");
  return read.status();
}

base::Status SessionHost::handle(Peer& peer, SessionMessage message) {
  if (const auto* const greeting = std::get_if<rendezvous::SessionHello>(&message)) return hello(peer, *greeting);
  if (!peer.has_sent_hello) return breach(peer.rank, "the rank did not begin with hello");
  if (peer.has_sent_goodbye) return breach(peer.rank, "the rank sent a message after its goodbye");
  if (auto* const request = std::get_if<rendezvous::SessionPut>(&message)) return put(peer, std::move(*request));
  if (auto* const request = std::get_if<rendezvous::SessionWait>(&message)) return wait(peer, std::move(*request));
  if (const auto* const request = std::get_if<rendezvous::SessionCancel>(&message)) {
    cancel(peer, request->id);
    return base::ok_status();
  }
  if (!std::holds_alternative<rendezvous::SessionGoodbye>(message)) {
    return breach(peer.rank, "the rank sent a message that only the host may send");
  }
  peer.has_sent_goodbye = true;
  return base::ok_status();
}

base::Status SessionHost::hello(Peer& peer, const rendezvous::SessionHello& hello) {
  if (peer.has_sent_hello) return breach(peer.rank, "the rank sent a second hello");
  if (hello.rank != peer.rank) return breach(peer.rank, fmt::format("its hello names rank {}", hello.rank));
  if (hello.version == 0) return breach(peer.rank, "its hello has version 0");
  peer.has_sent_hello = true;
  peer.generation = hellos_[peer.rank]++;
  ends_.erase(peer.rank);
  const std::string no_secret(rendezvous::kSessionSecretBytes, '\0');
  send(peer,
       rendezvous::SessionWelcome{std::min(hello.version, rendezvous::kSessionVersion), no_secret, peer.generation});
  for (const auto& [rank, last] : ends_) {
    if (last.end.failed || last.generation >= peer.generation) send(peer, last.end);
  }
  return base::ok_status();
}

base::Status SessionHost::put(Peer& peer, rendezvous::SessionPut put) {
  const base::Status stored = store(put.key, std::move(put.value));
  send(peer, rendezvous::SessionPutDone{put.id, stored.code(), stored.message()});
  if (stored.ok()) answer_waits(put.key);
  return base::ok_status();
}

base::Status SessionHost::store(const std::string& key, std::string value) {
  const auto found = values_.find(key);
  const std::size_t replaced = found == values_.end() ? 0 : key.size() + found->second.size();
  const std::size_t total = total_bytes_ - replaced + key.size() + value.size();
  if (total > limits_.max_total_bytes || (found == values_.end() && values_.size() >= limits_.max_keys)) {
    return base::resource_exhausted("rank 0's store is full: {} keys, {} bytes", values_.size(), total_bytes_);
  }
  total_bytes_ = total;
  values_[key] = std::move(value);
  return base::ok_status();
}

base::Status SessionHost::wait(Peer& peer, rendezvous::SessionWait wait) {
  if (peer.waits.contains(wait.id)) return breach(peer.rank, fmt::format("two waits with the id {}", wait.id));
  const auto found = values_.find(wait.key);
  if (found != values_.end()) {
    send(peer, rendezvous::SessionValue{wait.id, base::Code::kOk, found->second});
  } else if (waits_.size() >= limits_.max_waits) {
    send(peer, rendezvous::SessionValue{wait.id, base::Code::kResourceExhausted, "too many waits at rank 0"});
  } else {
    const auto at = waits_.emplace(std::move(wait.key), Wait{peer.stream.fd(), wait.id});
    peer.waits.emplace(wait.id, at);
  }
  return base::ok_status();
}

void SessionHost::cancel(Peer& peer, std::uint64_t id) {
  const auto found = peer.waits.find(id);
  if (found == peer.waits.end()) return;  // the wait was answered before
  waits_.erase(found->second);
  peer.waits.erase(found);
}

void SessionHost::answer_waits(const std::string& key) {
  const auto [begin, end] = waits_.equal_range(key);
  if (begin == end) return;
  const std::string& value = values_.at(key);
  for (auto at = begin; at != end; ++at) {
    Peer& peer = *peers_.at(at->second.fd);
    peer.waits.erase(at->second.id);
    send(peer, rendezvous::SessionValue{at->second.id, base::Code::kOk, value});
  }
  waits_.erase(begin, end);
}

// Never removes a peer, so that callers may iterate over the peers.
void SessionHost::send(Peer& peer, const SessionMessage& message) {
  if (!peer.stream.send(message).ok()) broken_.push_back(peer.stream.fd());
}

void SessionHost::drop_broken() {
  while (!broken_.empty()) {
    for (const int fd : std::exchange(broken_, {})) {
      const auto found = peers_.find(fd);
      if (found == peers_.end()) continue;
      // The peer may have sent a goodbye before it closed its end, so read first.
      base::Status why = read(*found->second);
      if (why.ok()) why = base::unavailable("the rank does not read");
      remove(*found->second, why);
    }
  }
}

void SessionHost::remove(Peer& peer, const base::Status& why) {
  for (const auto& [id, at] : peer.waits) waits_.erase(at);
  const bool is_failure = !peer.has_sent_goodbye;
  if (why.code() == base::Code::kInvalidArgument && problems_.size() < kMaxProblems) problems_.push_back(why);
  const int rank = peer.rank;
  const LastEnd last{{rank, is_failure, is_failure ? "lost its connection (it has probably died)" : "has left"},
                     peer.generation};
  const bool was_there = peer.has_sent_hello;
  std::erase(broken_, peer.stream.fd());
  peers_.erase(peer.stream.fd());
  if (was_there) report_end(rank, last);
}

// Reports the end of `rank` to the other ranks. If the rank died, all of them get the report. If it left its world in
// good order, only ranks that are not beyond that world get it, because some may have joined the next world already.
void SessionHost::report_end(int rank, const LastEnd& last) {
  const bool is_back = hellos_[rank] > last.generation + 1;
  if (!is_back) ends_[rank] = last;
  for (const auto& [fd, peer] : peers_) {
    const bool is_concerned = last.end.failed || last.generation >= peer->generation;
    if (peer->has_sent_hello && peer->rank != rank && is_concerned) send(*peer, last.end);
  }
}

std::vector<base::Status> SessionHost::take_problems() {
  return std::exchange(problems_, {});
}

}  // namespace muster::collectives::join
