// How busy the host's GPUs are, by what muster-gpus has told. Pure.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline gpus {

// `known`: as name_of() takes it; of them, those that the report does not have are left out.
void add_gpu_loads(const std::vector<model::GpuShape>& known, const gpus::GpuReport& report, v1::HostLoad& load);

}  // namespace muster::agent::gpus
