#include "collectives/transport/ring_link.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace muster::collectives::inline transport {
namespace {

constexpr std::size_t kMinCapacity = 64;
constexpr std::size_t kMaxCapacity = std::size_t{1} << 30;

std::uint32_t size32(std::size_t size) {
  return static_cast<std::uint32_t>(size);
}

std::byte* data_of(RingHead& ring) {
  return reinterpret_cast<std::byte*>(&ring) + sizeof(RingHead);
}

}  // namespace

RingLink::RingLink(RingHead& outgoing, RingHead& incoming, std::size_t capacity, Flag& peer_bell, std::string peer)
    : outgoing_(outgoing),
      incoming_(incoming),
      outgoing_data_(data_of(outgoing)),
      incoming_data_(data_of(incoming)),
      capacity_(size32(capacity)),
      peer_bell_(peer_bell),
      peer_(std::move(peer)) {
  MUSTER_CHECK(capacity >= kMinCapacity && capacity <= kMaxCapacity && std::has_single_bit(capacity));
}

RingLink::~RingLink() {
  outgoing_.is_closed.store(1);
  peer_bell_.ring();
}

void RingLink::put(std::span<const std::byte> bytes) {
  const std::uint32_t at = written_ & (capacity_ - 1);
  const std::size_t first = std::min<std::size_t>(bytes.size(), capacity_ - at);
  std::memcpy(outgoing_data_ + at, bytes.data(), first);
  if (first < bytes.size()) std::memcpy(outgoing_data_, bytes.data() + first, bytes.size() - first);
  written_ += size32(bytes.size());
}

void RingLink::get(std::span<std::byte> bytes) {
  const std::uint32_t at = read_ & (capacity_ - 1);
  const std::size_t first = std::min<std::size_t>(bytes.size(), capacity_ - at);
  std::memcpy(bytes.data(), incoming_data_ + at, first);
  if (first < bytes.size()) std::memcpy(bytes.data() + first, incoming_data_, bytes.size() - first);
  read_ += size32(bytes.size());
}

std::ptrdiff_t RingLink::try_send(std::span<const std::byte> head, std::span<const std::byte> body) {
  const std::size_t wanted = head.size() + body.size();
  if (capacity_ - (written_ - peer_read_) < wanted) {
    const std::uint32_t now = outgoing_.read.load(std::memory_order_acquire);
    if (written_ - now > capacity_) is_damaged_ = true;
    if (is_damaged_) return -1;
    peer_read_ = now;
  }
  const std::size_t room = std::min<std::size_t>(capacity_ - (written_ - peer_read_), most_at_once());
  if (room == 0) return 0;
  const std::span<const std::byte> from_head = head.first(std::min(head.size(), room));
  const std::span<const std::byte> from_body = body.first(std::min(body.size(), room - from_head.size()));
  if (!from_head.empty()) put(from_head);
  if (!from_body.empty()) put(from_body);
  // Sequentially consistent, because the bell requires it.
  outgoing_.written.store(written_);
  peer_bell_.ring();
  return static_cast<std::ptrdiff_t>(from_head.size() + from_body.size());
}

std::ptrdiff_t RingLink::try_receive(std::span<std::byte> head, std::span<std::byte> body) {
  if (peer_written_ == read_) {
    // Read is_closed before the position, because bytes that the peer wrote before it closed still count.
    const bool was_closed = incoming_.is_closed.load(std::memory_order_acquire) != 0;
    const std::uint32_t now = incoming_.written.load(std::memory_order_acquire);
    if (now - read_ > capacity_) is_damaged_ = true;
    if (is_damaged_) return -1;
    peer_written_ = now;
    if (now == read_) {
      is_closed_ = was_closed;
      return was_closed ? -1 : 0;
    }
  }
  const std::size_t there = std::min<std::size_t>(peer_written_ - read_, most_at_once());
  const std::span<std::byte> to_head = head.first(std::min(head.size(), there));
  const std::span<std::byte> to_body = body.first(std::min(body.size(), there - to_head.size()));
  if (!to_head.empty()) get(to_head);
  if (!to_body.empty()) get(to_body);
  incoming_.read.store(read_);
  peer_bell_.ring();
  return static_cast<std::ptrdiff_t>(to_head.size() + to_body.size());
}

base::Status RingLink::why() const {
  if (is_damaged_) {
    return base::unavailable(
        "the shared memory between this rank and {} is damaged: its ring holds an impossible position", peer_);
  }
  if (is_closed_) return base::unavailable("{} closed its link", peer_);
  return base::ok_status();
}

}  // namespace muster::collectives::transport
