// A Waiter says how long a helper thread of the bootstrap may wait, and what ends the wait early. It is a plain value
// to copy freely.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline bootstrap {

struct Waiter {
  static constexpr int kLost = -2;  // no descriptor was available for a CancelSource

  int cancel_fd = -1;  // stays readable once cancelled; -1 if it cannot be cancelled
  base::MonotonicTime deadline{};

  // Returns OK if one of `fds` has revents, or if `not_after` is reached. Else returns DEADLINE_EXCEEDED or CANCELLED.
  // Returns RESOURCE_EXHAUSTED if cancel_fd is kLost.
  base::Status wait(std::span<const pollfd> fds, base::MonotonicTime not_after = base::MonotonicTime::max()) const;
  // Returns OK after `time`, unless the wait is cancelled or reaches the deadline first.
  base::Status pause(std::chrono::milliseconds time) const;
  base::Status check() const;  // CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED or OK
  std::chrono::milliseconds left() const;
};

// A CancelSource is cancelled once and stays so. If it got no descriptor, every wait on its fd() fails at once.
class CancelSource {
 public:
  CancelSource();
  base::Status status() const;  // RESOURCE_EXHAUSTED if it has no descriptor
  int fd() const { return event_.valid() ? event_.get() : Waiter::kLost; }
  void cancel();

 private:
  base::UniqueFd event_;
};

}  // namespace muster::launcherd::bootstrap
