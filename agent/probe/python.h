// Asks this host's python3 for its version and packages, in the environment of a rank and contained like one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/process/warden.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// Blocks for at most `limit` and the time to end a process that has not answered. `environment` holds NAME=VALUE
// entries, as for a rank. Ends early when `cancel_fd` becomes readable.
// Afterwards the warden is in the state that it has after JobEmpty.
v1::PythonFact ask_python(Warden& warden, std::vector<std::string> environment, std::chrono::milliseconds limit,
                          int cancel_fd);

}  // namespace muster::agent::probe
