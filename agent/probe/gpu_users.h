// Who has memory on this host's GPUs, as far as NVIDIA's library tells.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent {

// At most 256 of them. Reads /proc.
std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& nvidia);

}  // namespace muster::agent
