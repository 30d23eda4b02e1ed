// Who has memory on this host's GPUs, as far as NVIDIA's library and the kernel's files tell.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent {

// At most 256 of them. Reads /proc.
std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& report);

}  // namespace muster::agent
