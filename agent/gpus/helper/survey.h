// Everything that NVML tells of the GPUs of this host.
#pragma once

#include "agent/gpus/helper/nvml_api.h"
#include "agent/gpus/report.h"

namespace muster::agent::inline gpus {

// What cannot be told of a GPU is left out; so is a GPU that is another's, and one that fails, of which `problem`
// speaks. In the bounds of decode_report(). An error: the GPUs cannot even be counted.
base::Result<GpuReport> survey(NvmlApi& nvml);

}  // namespace muster::agent::gpus
