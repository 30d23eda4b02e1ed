// One stream of bytes in each direction between two ranks of a communicator, over shared memory or TCP. It never
// blocks: if no bytes can move, use a Waiter (wait.h).
//
// Both directions take two spans at once, so that a message's header and its bytes need only one system call.
// Thread: one at a time.
// Errors: drop the link after an error.
#pragma once

#include <cstddef>
#include <span>

#include "base/status.h"

namespace muster::collectives::inline transport {

// Limit on the bytes of one call. A larger call would keep this rank too long from its other links.
inline constexpr std::size_t kMostAtOnce = 1 << 20;

class Link {
 public:
  virtual ~Link() = default;

  // Returns the number of bytes taken from `head`, then from `body`. 0 if there is no room now; -1 if broken, see
  // why(). One of the two must not be empty.
  virtual std::ptrdiff_t try_send(std::span<const std::byte> head, std::span<const std::byte> body) = 0;
  // Returns the number of bytes put into `head`, then into `body`. 0 if none have arrived; -1 if broken or at the end
  // of the stream, see why(). One of the two must not be empty.
  virtual std::ptrdiff_t try_receive(std::span<std::byte> head, std::span<std::byte> body) = 0;
  std::ptrdiff_t try_receive(std::span<std::byte> into) { return try_receive({}, into); }
  // UNAVAILABLE, with one sentence that names the peer.
  virtual base::Status why() const = 0;
  // Returns the descriptor to poll when nothing moves for long; -1 for shared memory, which has none.
  virtual int fd() const = 0;
};

}  // namespace muster::collectives::transport
