// Finds the processes that have memory on this host's GPUs, as far as NVIDIA's library and the kernel's files show
// them.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// Returns at most 256 users. Reads /proc. GPUs have the names that `hello` gives them.
std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& report, const v1::Hello& hello);

// Returns the GPUs of `hello` whose users the report does not list, or lists only in part. Pure.
std::vector<v1::UntoldGpu> find_unreported_gpus(const gpus::GpuReport& report, const v1::Hello& hello);

}  // namespace muster::agent::probe
