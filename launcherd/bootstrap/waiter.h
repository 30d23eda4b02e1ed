// How long a helper thread of the bootstrap may wait, and what ends the wait early. A plain value, copied freely.
#pragma once

#include <poll.h>

#include <chrono>
#include <span>

#include "base/clock.h"
#include "base/status.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline bootstrap {

struct Waiter {
  static constexpr int kLost = -2;  // there was no descriptor for a CancelSource

  int cancel_fd = -1;  // readable for ever once cancelled; -1: cannot be cancelled
  base::MonotonicTime deadline{};

  // OK: one of `fds` has revents (or errors). Else DEADLINE_EXCEEDED or CANCELLED. RESOURCE_EXHAUSTED: kLost.
  base::Status wait(std::span<const pollfd> fds, base::MonotonicTime not_after = base::MonotonicTime::max()) const;
  // OK once `not_after` is reached while neither cancelled nor past the deadline.
  base::Status pause(std::chrono::milliseconds time) const;
  base::Status check() const;  // CANCELLED, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED or OK
  std::chrono::milliseconds left() const;
};

// Cancelled once, for good. Without a descriptor for it, those who wait by its fd() fail at once.
class CancelSource {
 public:
  CancelSource();
  base::Status status() const;  // RESOURCE_EXHAUSTED: it has no descriptor
  int fd() const { return event_.valid() ? event_.get() : Waiter::kLost; }
  void cancel();

 private:
  base::UniqueFd event_;
};

}  // namespace muster::launcherd::bootstrap
