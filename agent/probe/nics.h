// The network devices of this host, as sysfs has them.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// `sys`: "/sys" on a host. Loopback is left out; each port of an InfiniBand or RoCE adapter is an entry of its own,
// "mlx5_0/1".
std::vector<v1::NicFact> read_nics(const std::string& sys);

}  // namespace muster::agent::probe
