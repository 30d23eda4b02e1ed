// Waiting for one descriptor up to a moment: for the few blocking steps before a service thread runs.
#pragma once

#include <chrono>

#include "base/clock.h"

namespace muster::collectives::inline join {

// Also for deadlines that stand for "ever".
base::MonotonicTime end_of(std::chrono::milliseconds deadline);

// Until `fd` has `events` (as poll(2)) or an error to tell. False: `end` came first.
bool poll_until(int fd, short events, base::MonotonicTime end);

}  // namespace muster::collectives::join
