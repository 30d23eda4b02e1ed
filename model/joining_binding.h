// Binds ranks that join a job on a host where other ranks of it run already. The ranks that run keep their cores and
// GPUs. A rank that joins gets others, if the job's share of the host has enough of them. Pure.
#pragma once

#include <span>

#include "base/status.h"
#include "model/gpu_binding.h"
#include "model/host_binding.h"
#include "model/job_event.h"
#include "model/pinning.h"
#include "model/placement.h"

namespace muster::model {

// `requests` has all ranks of the host, by local rank. `running` has those that run already, with the cores and
// devices that they have. A local rank of -1 means that the rank is leaving the job. All other ranks join now.
//
// Errors are those of bind_host(). If not enough cores or GPUs are left, ranks that join share them with the others, as
// if all ranks started now.
//
// With --gpu-bind order, a rank that joins sees a list in which entry i is the device of local rank i.
base::Result<NodeBinding> bind_joining(const NodeShape& node, std::span<const RankRequest> requests,
                                       std::span<const BoundRank> running, const Pinning& pinning,
                                       const GpuMasks& masks, const HostShare* share);

}  // namespace muster::model
