// Reads the network devices of this host from sysfs.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// `sys` is "/sys" on a host. Loopback is left out. Each port of an InfiniBand or RoCE adapter is an entry of its own,
// "mlx5_0/1".
std::vector<v1::NicFact> read_nics(const std::string& sys);

}  // namespace muster::agent::probe
