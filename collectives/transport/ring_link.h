// A link between two ranks of one host: one ring of bytes for each direction, in their shared segment.
//
// A ring has one producer and one consumer. Each keeps its own position privately and only reads the other's. If a
// damaged process writes an impossible position, the link breaks, but no access leaves the ring. A rank sleeps on its
// bell, a Flag in the segment, and a peer that moves bytes rings it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "collectives/transport/link.h"
#include "collectives/transport/wait.h"

namespace muster::collectives::inline transport {

// Lies in the segment, 128-aligned because processors fetch adjacent cache lines in pairs. The data follows directly.
// Zero bytes are an empty ring.
struct RingHead {
  alignas(128) std::atomic<std::uint32_t> written;  // positions count bytes, modulo 2^32
  std::atomic<std::uint32_t> is_closed;             // set by the producer
  alignas(128) std::atomic<std::uint32_t> read;
};
static_assert(sizeof(RingHead) == 256);

class RingLink final : public Link {
 public:
  // Returns the bytes of a ring with `capacity` bytes of data.
  static constexpr std::size_t bytes_of_ring(std::size_t capacity) { return sizeof(RingHead) + capacity; }

  // `capacity` must be a power of two from 64 bytes to 1 GiB, the same for both ends. The memory must outlive the link.
  // It must be zero when the first link is made, and it cannot serve a second one. `peer` is a name such as "rank 3
  // (n2)".
  RingLink(RingHead& outgoing, RingHead& incoming, std::size_t capacity, Flag& peer_bell, std::string peer);
  // Closes the stream. The peer first reads all bytes that were sent, then the end of the stream.
  ~RingLink() override;
  RingLink(const RingLink&) = delete;
  RingLink& operator=(const RingLink&) = delete;

  std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) override;
  using Link::try_receive;
  std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) override;
  base::Status why() const override;
  int fd() const override { return -1; }

 private:
  // Limits one call to a quarter of the ring, so that one side can write while the other one reads.
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
  // The peer's positions as last read. Their cache lines belong to the peer, so this rank reads them again only when it
  // must.
  std::uint32_t peer_read_ = 0;
  std::uint32_t peer_written_ = 0;
  bool is_damaged_ = false;
  bool is_closed_ = false;
};

}  // namespace muster::collectives::transport
