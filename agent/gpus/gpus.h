// The GPUs of a host, from what the kernel and the drivers show in files: the agent is static and loads no vendor's
// library. NVIDIA: /proc/driver/nvidia/gpus, or what its library has told muster-gpus (agent/gpus); AMD: the topology
// of the KFD driver; Intel: /sys/class/drm (agent/gpus/kernel_gpus.h); all: the PCI device in sysfs.
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

// `node`: whose numbers of NUMA nodes count. `root` goes before all paths. What cannot be read is left out: a GPU, or
// what is not known of it.
// NVIDIA's files are read where the report has not.
std::vector<model::GpuShape> find_gpus(const model::NodeShape& node, const std::string& root = "",
                                       const gpus::GpuReport& nvidia = {});

// What can be asked of a host about its GPUs while it runs. A library that has failed, or has not answered in time, is
// asked again: its driver is there.
gpus::Question question_about(const v1::Hello& hello, bool has_nvidia_driver = gpus::has_nvidia_driver());

struct NvidiaLook {
  gpus::GpuReport report;            // that the library cannot be used is its `problem`
  std::vector<gpus::Helper> hung{};  // those that have not answered
};

// What NVIDIA's library tells; of a host without its driver nothing, at once. Blocks, and starts a process.
NvidiaLook ask_nvidia_blocking(const base::Environment& login_environment);

}  // namespace muster::agent::gpus
