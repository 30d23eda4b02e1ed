// The messages of one step: adding them, moving them, waiting, and errors.
// Read run() in exchange.h first, then turn(), wait() and sleep(), then broken_sending() and late_failure().
#include "collectives/transport/exchange.h"

#include <sched.h>

#include <algorithm>
#include <bit>
#include <cstdint>

namespace muster::collectives::inline transport {
namespace {

constexpr int kSleepMs = 10;
// Used if a message waits for shared memory, which poll() does not see.
constexpr int kShortSleepMs = 1;
constexpr std::size_t kAlignment = 64;

}  // namespace

Exchange::Exchange(Peers& peers) : peers_(peers), operands_(static_cast<std::size_t>(peers.size())) {
  // Reserve, so that pointers from open_send() stay valid.
  outgoing_.reserve(static_cast<std::size_t>(peers.size()));
  incoming_.reserve(static_cast<std::size_t>(peers.size()));
}

void Exchange::begin(const Operation& operation, Algorithm algorithm) {
  operation_ = operation;
  algorithm_ = algorithm;
  outgoing_.clear();
  incoming_.clear();
  has_sockets_ = false;
  failed_peer_ = -1;
}

MessageHeader Exchange::header(std::uint64_t bytes) const {
  return {.algorithm = static_cast<std::uint32_t>(algorithm_),
          .sequence = operation_.sequence,
          .call = operation_.call,
          .bytes = bytes};
}

base::Result<Outgoing*> Exchange::open_send(int peer, std::uint64_t bytes) {
  MUSTER_CHECK(peer >= 0 && peer < size() && peer != rank() && outgoing_.size() < outgoing_.capacity());
  failed_peer_ = peer;
  MUSTER_ASSIGN_OR_RETURN(Link* const link, peers_.link(peer));
  failed_peer_ = -1;
  has_sockets_ |= link->fd() >= 0;
  return &outgoing_.emplace_back(*link, peer, header(bytes));
}

base::Result<Incoming*> Exchange::open_receive(int peer, std::uint64_t bytes) {
  MUSTER_CHECK(peer >= 0 && peer < size() && peer != rank() && incoming_.size() < incoming_.capacity());
  failed_peer_ = peer;
  MUSTER_ASSIGN_OR_RETURN(Link* const link, peers_.link(peer));
  failed_peer_ = -1;
  has_sockets_ |= link->fd() >= 0;
  return &incoming_.emplace_back(*link, peer, header(bytes));
}

base::Status Exchange::send(int peer, std::span<const std::byte> bytes) {
  MUSTER_ASSIGN_OR_RETURN(Outgoing* const message, open_send(peer, bytes.size()));
  message->provide(bytes);
  return base::ok_status();
}

base::Status Exchange::receive(int peer, std::span<std::byte> place) {
  MUSTER_ASSIGN_OR_RETURN(Incoming* const message, open_receive(peer, place.size()));
  message->provide(place);
  return base::ok_status();
}

Moved Exchange::turn() {
  Moved moved = Moved::kNothing;
  for (Outgoing& message : outgoing_) {
    const Moved one = message.turn();
    if (one == Moved::kBroken) return broken_sending(message);
    if (one == Moved::kSome) moved = one;
  }
  for (Incoming& message : incoming_) {
    const Moved one = message.turn();
    if (one == Moved::kBroken) return broken_receiving(message);
    if (one == Moved::kSome) moved = one;
  }
  return moved;
}

Moved Exchange::broken_sending(const Outgoing& message) {
  failed_peer_ = message.peer();
  error_ = message.link().why();
  // If the peer stopped because we called another operation, it sent its header before it closed the link. So read on.
  for (Incoming& last : incoming_) {
    if (last.peer() != message.peer()) continue;
    while (last.turn() == Moved::kSome) continue;
    if (last.is_mismatch()) return broken_receiving(last);
  }
  return Moved::kBroken;
}

Moved Exchange::broken_receiving(const Incoming& message) {
  failed_peer_ = message.peer();
  error_ = message.is_mismatch() ? message.mismatch(peers_.name(message.peer()), peers_.name(peers_.rank()))
                                 : message.link().why();
  return Moved::kBroken;
}

bool Exchange::are_all_done() const {
  return std::ranges::all_of(outgoing_, &Outgoing::is_done) && std::ranges::all_of(incoming_, &Incoming::is_done);
}

base::Status Exchange::finish(base::Status status) {
  outgoing_.clear();
  incoming_.clear();
  return status;
}

base::Status Exchange::wait(Waiter& waiter, Moved* moved) {
  // Yield, because the peer may run on this host and wait for this core. A turn over sockets costs more than a yield.
  if (has_sockets_ && !peers_.policy().oversubscribed) sched_yield();
  MUSTER_ASSIGN_OR_RETURN(const bool is_time, waiter.is_time_to_sleep([this] { return late_failure(); }));
  if (!is_time) return base::ok_status();
  const int gone = first_ended_peer();
  if (gone < 0) {
    *moved = sleep();
    return base::ok_status();
  }
  *moved = turn();  // bytes that the peer sent before it ended still count
  if (*moved != Moved::kNothing) return base::ok_status();
  failed_peer_ = gone;
  return base::unavailable("{}: {} ended before it had finished its part", describe(operation_.call),
                           peers_.name(gone));
}

// Checks only peers with a ring, because a ring stays open when its process ends. A connection is closed after its last
// byte.
int Exchange::first_ended_peer() const {
  const auto is_gone = [this](const auto& message) {
    return !message.is_done() && message.link().fd() < 0 && peers_.is_gone(message.peer());
  };
  const auto from = std::ranges::find_if(incoming_, is_gone);
  if (from != incoming_.end()) return from->peer();
  const auto to = std::ranges::find_if(outgoing_, is_gone);
  return to != outgoing_.end() ? to->peer() : -1;
}

Moved Exchange::sleep() {
  fds_.clear();
  bool has_rings = false;
  const auto add = [&](const Link& link, short events) {
    if (link.fd() >= 0) {
      fds_.push_back({link.fd(), events, 0});
    } else {
      has_rings = true;
    }
  };
  for (const Outgoing& message : outgoing_) {
    if (message.is_ready()) add(message.link(), POLLOUT);
  }
  for (const Incoming& message : incoming_) {
    if (message.is_ready()) add(message.link(), POLLIN);
  }
  Moved moved = Moved::kNothing;
  if (!fds_.empty()) {
    // Ignore the result: after an error or a signal, the caller tries the links again.
    poll(fds_.data(), fds_.size(), has_rings ? kShortSleepMs : kSleepMs);
  } else {
    peers_.bell().sleep_unless([&] {
      moved = turn();
      return moved != Moved::kNothing;
    });
  }
  return moved;
}

int Exchange::first_pending_peer() const {
  for (const Incoming& message : incoming_) {
    if (!message.is_done()) return message.peer();
  }
  for (const Outgoing& message : outgoing_) {
    if (!message.is_done()) return message.peer();
  }
  return -1;
}

Failure Exchange::late_failure() {
  const int peer = first_pending_peer();
  failed_peer_ = peer;
  const std::string call = describe(operation_.call);
  if (peer < 0) return {base::Code::kDeadlineExceeded, -1, "", call + " did not finish in time"};
  return {
      base::Code::kDeadlineExceeded, peers_.world_rank(peer), peers_.host(peer),
      fmt::format("no data from {} for {} ms during {}", peers_.name(peer), peers_.policy().deadline.count(), call)};
}

std::span<std::byte> Exchange::scratch(std::size_t bytes) {
  if (scratch_size_ < bytes + kAlignment) {
    scratch_.reset();  // free the old memory before the new one is allocated
    scratch_size_ = 0;
    scratch_.reset(new std::byte[bytes + kAlignment]);  // not zeroed, because zeroing costs as much as an operation
    scratch_size_ = bytes + kAlignment;
  }
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_.get());
  return {scratch_.get() + (kAlignment - address % kAlignment) % kAlignment, bytes};
}

}  // namespace muster::collectives::transport
