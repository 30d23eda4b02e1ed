// NVIDIA's management library of this host, loaded when it is asked for. Nothing of it is needed to build: what is
// called is declared in nvml_functions.h after the published interface (https://docs.nvidia.com/deploy/nvml-api/).
#pragma once

#include <memory>

#include "agent/gpus/helper/nvml_api.h"

namespace muster::agent::inline gpus {

// `file`: a name that the dynamic linker looks for, or a path. UNAVAILABLE, one sentence: it cannot be loaded, lacks
// what is needed, or does not start (no driver is loaded, or one of another version).
base::Result<std::unique_ptr<NvmlApi>> load_nvml(const char* file = "libnvidia-ml.so.1");

}  // namespace muster::agent::gpus
