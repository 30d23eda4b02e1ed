// Asks this host's python3 who it is, in the environment of a rank and contained as one.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "agent/process/warden.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// Blocks for at most `limit` and the time that it takes to end what has not answered. `environment`: NAME=VALUE, as of
// a rank. Ends early when `cancel_fd` becomes readable. The warden is left as after JobEmpty.
v1::PythonFact ask_python(Warden& warden, std::vector<std::string> environment, std::chrono::milliseconds limit,
                          int cancel_fd);

}  // namespace muster::agent::probe
