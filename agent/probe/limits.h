// The resource limits that a login has on this host, and the cgroup's limit of processes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// nofile, memlock and nproc of this process (before anything raised them), and "pids" where a cgroup has a limit.
std::vector<v1::LimitFact> read_limits();

}  // namespace muster::agent::probe
