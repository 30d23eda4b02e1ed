// Loads this host's NVIDIA management library at run time. The build needs nothing of it. The functions are declared
// in nvml_functions.h after the published interface (https://docs.nvidia.com/deploy/nvml-api/).
#pragma once

#include <memory>

#include "agent/gpus/helper/nvml_api.h"

namespace muster::agent::inline gpus {

// `file` is a path, or a name that the dynamic linker searches. UNAVAILABLE, one sentence: the library cannot be
// loaded, lacks a needed function, or does not start (no driver is loaded, or one of another version).
base::Result<std::unique_ptr<NvmlApi>> load_nvml(const char* file = "libnvidia-ml.so.1");

}  // namespace muster::agent::gpus
