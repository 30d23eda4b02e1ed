// Merges what NVIDIA's library reports about the host's GPUs with what files show. Pure.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

// Returns NVIDIA's GPUs from the report, with the place that files show, and other vendors' GPUs unchanged. A report
// without a driver means that the library cannot be used, and changes nothing. Indices count the GPUs that this user
// may use, as CUDA does.
std::vector<model::GpuShape> with_report(const std::vector<model::GpuShape>& from_files, const gpus::GpuReport& report);

}  // namespace muster::agent::gpus
