// Who has memory on this host's GPUs, as far as NVIDIA's library and the kernel's files tell.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "proto/muster/v1/probe.pb.h"

namespace muster::agent::inline probe {

// At most 256 of them. Reads /proc. GPUs are called as in `hello`.
std::vector<v1::GpuUser> find_gpu_users(const gpus::GpuReport& report, const v1::Hello& hello);

// Those of `hello` of whose users the report does not speak, or only of some. Pure.
std::vector<v1::UntoldGpu> find_untold_gpus(const gpus::GpuReport& report, const v1::Hello& hello);

}  // namespace muster::agent::probe
