// What NVIDIA's library tells of the host's GPUs, put together with what files show. Pure.
#pragma once

#include <vector>

#include "agent/gpus/report.h"
#include "model/node_shape.h"

namespace muster::agent::inline gpus {

// NVIDIA's GPUs as the report has them, with the place that files show; the others as they are. A report of no driver,
// that of a library that cannot be used, changes nothing. Indices count those that this user may use, as CUDA does.
std::vector<model::GpuShape> with_report(const std::vector<model::GpuShape>& from_files, const gpus::GpuReport& report);

}  // namespace muster::agent::gpus
