// One stream of bytes each way between two ranks of a communicator, over shared memory or TCP. Never blocks: who has
// nothing to move turns to a Waiter (wait.h).
//
// Both directions take two places at once, so that a message's header and its bytes cost one system call. One thread at
// a time. After an error the link is to be dropped.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace muster::collectives::inline transport {

// Bytes of one call. A call that moves more keeps this rank from looking at its other links.
inline constexpr std::size_t kMostAtOnce = 1 << 20;

class Link {
 public:
  virtual ~Link() = default;

  // Bytes taken from `head`, then `body`; 0: no room now; -1: broken, see why(). Not both empty.
  virtual std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  // Bytes put into `head`, then `body`; 0: nothing there; -1: broken or at its end, see why(). Not both empty.
  virtual std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) = 0;
  std::ptrdiff_t try_receive(std::span<std::byte> into) { return try_receive({}, into); }
  // UNAVAILABLE, one sentence that names the peer.
  virtual base::Status why() const = 0;
  // To poll when nothing moves for long; -1: shared memory, without one.
  virtual int fd() const = 0;
};

}  // namespace muster::collectives::transport
