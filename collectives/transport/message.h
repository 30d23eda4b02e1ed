// One message over a link: a fixed header that names its operation, then bytes. Both ends know the number of bytes from
// their own arguments. The receiver compares the header with its arguments before it uses a byte.
//
// These are state machines without waiting, which exchange.h drives.
// Thread: not shared between threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "collectives/call/call.h"
#include "collectives/transport/link.h"

namespace muster::collectives::inline transport {

struct Operation {
  // The operation's number in the communicator. For send and receive, its number between these two ranks.
  std::uint64_t sequence = 0;
  Call call;
};

// The header as it is sent, in the ranks' byte order. Only little-endian ranks are supported.
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
  // Provides more of the message. Call it only when all earlier bytes have been sent.
  void provide(std::span<const std::byte> bytes) { unsent_ = bytes; }
  bool needs_more() const { return unsent_.empty() && sent_ < header_.bytes; }
  // Returns whether the whole message has been sent.
  bool is_done() const { return header_sent_ == sizeof(MessageHeader) && sent_ == header_.bytes; }
  // Returns whether turn() can send anything. While the message has no bytes yet, its header waits, too.
  bool is_ready() const { return !is_done() && (!unsent_.empty() || header_.bytes == 0); }
  std::uint64_t sent() const { return sent_; }
  Moved turn();

 private:
  Link* link_;
  int peer_;
  MessageHeader header_;
  std::size_t header_sent_ = 0;
  std::span<const std::byte> unsent_;
  std::uint64_t sent_ = 0;
};

class Incoming {
 public:
  Incoming(Link& link, int peer, const MessageHeader& expected) : link_(&link), peer_(peer), expected_(expected) {}

  int peer() const { return peer_; }
  const Link& link() const { return *link_; }
  // Sets where the next bytes go. Call it only when the place before is full.
  void provide(std::span<std::byte> place) { place_ = place; }
  bool needs_more() const { return place_.empty() && received_ < expected_.bytes; }
  bool is_done() const { return is_checked_ && received_ == expected_.bytes; }
  bool is_ready() const { return !is_done() && (!place_.empty() || expected_.bytes == 0); }
  std::uint64_t received() const { return received_; }
  // Also returns kBroken for an unexpected header; mismatch() describes it.
  Moved turn();
  bool is_mismatch() const { return is_mismatch_; }
  // INVALID_ARGUMENT, or DATA_LOSS if the bytes are no header. `peer` is the peer's name in messages.
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
