// Finds the GPUs of a host from files of the kernel and the drivers. The agent is static and loads no vendor's
// library.
// NVIDIA: /proc/driver/nvidia/gpus, or what its library has reported to muster-gpus (agent/gpus/helper).
// AMD: the topology of the KFD driver. Intel: /sys/class/drm (agent/gpus/kernel_gpus.h). All: the PCI device in
// sysfs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "agent/gpus/helper.h"
#include "agent/gpus/report.h"
#include "base/env.h"
#include "model/node_shape.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline gpus {

// `node` supplies the numbers of NUMA nodes. `root` is put before all paths. A GPU or a property that cannot be read
// is left out.
// NVIDIA's files are read here only if `nvidia` does not contain them.
std::vector<model::GpuShape> find_gpus(const model::NodeShape& node, const std::string& root = "",
                                       const gpus::GpuReport& nvidia = {});

// Returns the query for the GPUs of a running host. If the host has NVIDIA's driver, the query includes NVIDIA's
// library, even if the library has failed or not answered in time.
gpus::Question question_about(const v1::Hello& hello, bool has_nvidia_driver = gpus::has_nvidia_driver());

struct NvidiaSurvey {
  gpus::GpuReport report;            // its `problem` says why the library cannot be used
  std::vector<gpus::Helper> hung{};  // helpers that have not answered
};

// Asks NVIDIA's library. Returns an empty report at once if the host has no NVIDIA driver. Otherwise it blocks, and
// starts a process.
NvidiaSurvey ask_nvidia_blocking(const base::Environment& login_environment);

}  // namespace muster::agent::gpus
