// The ranks of one host, and the cores and GPUs that each gets. model/gpu_binding.h deals them, except for ranks whose
// cores or GPUs the caller has chosen (RankPlace). All stays within the job's share of the host. Pure.
//
// A chosen GPU is named by its UUID or its PCI address, a part of a divided one by its UUID. It must exist. A rank with
// chosen GPUs sees only these. The other ranks get none of them, and no chosen core. A rank with chosen cores gets GPUs
// near them, as --gpu-order says.
//
// A role may set a GPU mask for its ranks (CUDA_VISIBLE_DEVICES in its environment). The ranks then have the GPUs of
// that mask, and the binder deals them none. Other ranks get different GPUs if there are enough. With --gpu-bind order,
// all ranks see one list, and local rank i uses entry i of it. So the binder then deals a GPU also to a rank with a
// mask if a later rank is dealt one.
#pragma once

#include <span>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "model/gpu_binding.h"
#include "model/job_spec.h"
#include "model/placement.h"
#include "model/role.h"

namespace muster::model {

// The GPU masks in a role's environment, and the role's ranks.
struct RoleMasks {
  int first = 0;
  int count = 0;
  GpuMasks masks{};

  bool operator==(const RoleMasks&) const = default;
};
// Returns the masks of those roles that set any.
std::vector<RoleMasks> role_masks(const std::vector<Role>& roles, const base::Environment& launcher);

// The choices for one rank.
struct RankRequest {
  const RankPlace* place = nullptr;
  const GpuMasks* masks = nullptr;  // masks of the rank's role; nullptr if the role sets none

  bool has_cpus() const { return place != nullptr && !place->cpus.empty(); }
  bool has_gpus() const { return place != nullptr && !place->gpus.empty(); }
};
// Returns one entry for each rank of the host. The result refers to `places` and `roles`.
std::vector<RankRequest> requests_on(std::span<const RankPlace> places, std::span<const RoleMasks> roles,
                                     const PlacedHost& host);

// Returns all GPUs that were chosen for ranks, by device_id(). INVALID_ARGUMENT as from bind_host().
base::Result<std::vector<std::string>> chosen_devices(const NodeShape& node, std::span<const RankRequest> requests,
                                                      const GpuMasks& masks);

// Returns for each rank whether GPUs are dealt to it.
std::vector<bool> are_dealt(const NodeShape& node, std::span<const RankRequest> requests, const Pinning& pinning,
                            const GpuMasks& masks);

// `share` is nullptr for the whole host. Returns the errors of bind_node(), and two more.
// INVALID_ARGUMENT if a chosen GPU does not exist, several parts have its name, or it is of another vendor than the
// rank's others. Also if all GPUs are chosen, so that the other ranks would get no mask and see all of them.
// FAILED_PRECONDITION if there are GPUs for the other ranks, but none is in the job's share.
base::Result<NodeBinding> bind_host(const NodeShape& node, std::span<const RankRequest> requests,
                                    const Pinning& pinning, const GpuMasks& masks, const HostShare* share = nullptr);

}  // namespace muster::model
