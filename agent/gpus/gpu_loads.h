// Fills in how busy the host's GPUs are, from a report of muster-gpus. Pure.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline gpus {

// `known` has the meaning that name_of() gives it. GPUs that the report lacks are left out.
void add_gpu_loads(const std::vector<model::GpuShape>& known, const gpus::GpuReport& report, v1::HostLoad& load);

}  // namespace muster::agent::gpus
