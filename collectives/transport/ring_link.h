// A link between two ranks of one host: a ring of bytes each way in their shared segment.
//
// A ring has one producer and one consumer. Both keep their own position to themselves and only look at the other's:
// a position that cannot be (from a process that is not well) breaks the link, it never reaches beyond the ring.
// A rank that sleeps does so on its bell (a Flag of its own in the segment), which whoever moves bytes rings.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/transport/link.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline transport {

// As it lies in the segment, 128-aligned (adjacent cache lines are fetched in pairs), the data right behind it. Zero
// bytes are an empty ring.
struct RingHead {
  alignas(128) std::atomic<std::uint32_t> written;  // positions: bytes, modulo 2^32
  std::atomic<std::uint32_t> is_closed;             // by the producer
  alignas(128) std::atomic<std::uint32_t> read;
};
static_assert(sizeof(RingHead) == 256);

class RingLink final : public Link {
 public:
  // Of the ring with `capacity` bytes of data.
  static constexpr std::size_t bytes_of_ring(std::size_t capacity) { return sizeof(RingHead) + capacity; }

  // `capacity` is a power of two of at least 64 bytes and at most 1 GiB, the same for both. The memory outlives the
  // link; a ring has to be zero when its first link is made, and gets no second one. `peer`: "rank 3 (n2)".
  RingLink(RingHead& outgoing, RingHead& incoming, std::size_t capacity, Flag& peer_bell, std::string peer);
  // The peer finds the end of the stream behind what was sent.
  ~RingLink() override;
  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;

  std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  using Link::try_receive;
  std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) override;
  base::Status why() const override;
  int fd() const override { return -1; }

 private:
  // So that one side writes while the other one reads.
  std::uint32_t most_at_once() const { return capacity_ / 4; }
  void put(std::span<const std::byte> bytes);
  void get(std::span<std::byte> bytes);

  RingHead& outgoing_;
  RingHead& incoming_;
  std::byte* const outgoing_data_;
  const std::byte* const incoming_data_;
  const std::uint32_t capacity_;
  Flag& peer_bell_;
  const std::string peer_;
  std::uint32_t written_ = 0;
  std::uint32_t read_ = 0;
  // As seen last: their cache lines are the peer's, and are looked at again only when these do not do.
  std::uint32_t peer_read_ = 0;
  std::uint32_t peer_written_ = 0;
  bool is_damaged_ = false;
  bool is_closed_ = false;
};

}  // namespace muster::collectives::transport
