// Collects everything that NVML reports about the GPUs of this host.
#pragma once

#include "agent/gpus/helper/nvml_api.h"
#include "agent/gpus/report.h"

namespace muster::agent::inline gpus {

// Leaves out properties that a GPU does not report, and GPUs that this user may not use. A GPU that fails is left
// out, too; `problem` then describes it. Keeps the bounds of decode_report(). Error: the GPUs cannot even be counted.
base::Result<GpuReport> survey(NvmlApi& nvml);

}  // namespace muster::agent::gpus
