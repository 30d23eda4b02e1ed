// One message over a link: a fixed header that says which operation it is part of, then bytes. Both ends know from
// their own arguments how many there have to be; the header is compared with that before a byte is used.
//
// Plain state machines without waiting; exchange.h drives them. Not shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/call/call.h"
#include "collectives/transport/link.h"

namespace muster::collectives::inline transport {

struct Operation {
  std::uint64_t sequence = 0;  // its number in the communicator; of send and receive: between these two ranks
  Call call;
};

// As on the wire, in the byte order of the ranks (little-endian; others are not supported).
struct MessageHeader {
  static constexpr std::uint32_t kMagic = 0x316d736dU;  // "msm1"
  std::uint32_t magic = kMagic;
  std::uint32_t algorithm = 0;
  std::uint64_t sequence = 0;
  Call call;
  std::uint64_t bytes = 0;
};
static_assert(sizeof(MessageHeader) == 40);

enum class Moved { kNothing, kSome, kBroken };

class Outgoing {
 public:
  Outgoing(Link& link, int peer, const MessageHeader& header) : link_(&link), peer_(peer), header_(header) {}

  int peer() const { return peer_; }
  const Link& link() const { return *link_; }
  // More of the message; only when all that was given before has gone.
  void give(std::span<const std::byte> bytes) { given_ = bytes; }
  bool needs_more() const { return given_.empty() && sent_ < header_.bytes; }
  // All of it has gone.
  bool is_done() const { return header_sent_ == sizeof(MessageHeader) && sent_ == header_.bytes; }
  // Whether turn() can do anything: a message without bytes yet waits with its header, too.
  bool is_ready() const { return !is_done() && (!given_.empty() || header_.bytes == 0); }
  std::uint64_t sent() const { return sent_; }
  Moved turn();

 private:
  Link* link_;
  int peer_;
  MessageHeader header_;
  std::size_t header_sent_ = 0;
  std::span<const std::byte> given_;
  std::uint64_t sent_ = 0;
};

class Incoming {
 public:
  Incoming(Link& link, int peer, const MessageHeader& expected) : link_(&link), peer_(peer), expected_(expected) {}

  int peer() const { return peer_; }
  const Link& link() const { return *link_; }
  // Where the next bytes go; only when the place given before is full.
  void give(std::span<std::byte> place) { place_ = place; }
  bool needs_more() const { return place_.empty() && received_ < expected_.bytes; }
  bool is_done() const { return is_checked_ && received_ == expected_.bytes; }
  bool is_ready() const { return !is_done() && (!place_.empty() || expected_.bytes == 0); }
  std::uint64_t received() const { return received_; }
  // kBroken also for a header that is not the expected one: mismatch() says which.
  Moved turn();
  bool is_mismatch() const { return is_mismatch_; }
  // INVALID_ARGUMENT, or DATA_LOSS for something that is no header. `peer`: as messages name it.
  base::Status mismatch(const std::string& peer, const std::string& own) const;

 private:
  Link* link_;
  int peer_;
  MessageHeader expected_;
  MessageHeader header_;
  std::size_t header_received_ = 0;
  bool is_checked_ = false;
  bool is_mismatch_ = false;
  std::span<std::byte> place_;
  std::uint64_t received_ = 0;
};

}  // namespace muster::collectives::transport
