// Prepares this process to run a launcher. Main thread, before any other thread starts.
#pragma once

#include <vector>

#include "base/status.h"
#include "cli/view/signals.h"

namespace muster::cli::inline view {

// Blocks `signals` and returns them as events. Ignores SIGPIPE, hides this process's memory, and raises the limit of
// descriptors, because each host needs at least one. The error tells why signals cannot be blocked, or that this
// process cannot start `threads` threads.
base::Result<Signals> prepare_launcher(const std::vector<int>& signals, int threads);

}  // namespace muster::cli::view
