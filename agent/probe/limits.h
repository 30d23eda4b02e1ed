// Reads the resource limits of a login on this host, and the cgroup's limit of processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// Returns nofile, memlock and nproc of this process, and "pids" if a cgroup has a limit. Call it before this process
// raises its limits.
std::vector<v1::LimitFact> read_limits();

}  // namespace muster::agent::probe
