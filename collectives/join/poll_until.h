// Waits for one descriptor until a point in time. It serves the few blocking steps before a service thread runs.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace muster::collectives::inline join {

// Returns the end of `deadline` from now. It also handles deadlines that stand for "forever".
base::MonotonicTime end_of(std::chrono::milliseconds deadline);

// Waits until `fd` has `events` (as for poll(2)) or an error. Returns false if `end` came first.
bool poll_until(int fd, short events, base::MonotonicTime end);

}  // namespace muster::collectives::join
