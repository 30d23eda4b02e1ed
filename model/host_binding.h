// The ranks of one host and what each gets of it: dealt as model/gpu_binding.h does, but for those whose cores or GPUs
// somebody has chosen (RankPlace), and within the share of the host that the job has. Pure.
//
// A chosen GPU is named by its UUID, or its PCI address; a part of a divided one by its UUID. It must be there. Who has
// GPUs chosen for him sees these alone; the others are dealt none of them, and no core that was chosen. Who has cores
// chosen for him is dealt GPUs as near to them as --gpu-order has it.
//
// A role may say itself what its ranks see (CUDA_VISIBLE_DEVICES in its environment). They have what it names, others
// are dealt different ones where there are enough, and they are dealt none, but where a later rank is to find its own
// in the list that all see (--gpu-bind order).
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

// What the environment of a role says of GPUs; it has these ranks.
struct RoleMasks {
  int first = 0;
  int count = 0;
  GpuMasks masks{};

  bool operator==(const RoleMasks&) const = default;
};
// Of the roles that say something.
std::vector<RoleMasks> role_masks(const std::vector<Role>& roles, const base::Environment& launcher);

// What is said of one rank; nullptr: nothing.
struct RankWish {
  const RankPlace* place = nullptr;
  const GpuMasks* masks = nullptr;  // of its role

  bool has_cpus() const { return place != nullptr && !place->cpus.empty(); }
  bool has_gpus() const { return place != nullptr && !place->gpus.empty(); }
};
// Of each of the host's ranks. Borrows from both.
std::vector<RankWish> wishes_on(std::span<const RankPlace> places, std::span<const RoleMasks> roles,
                                const PlacedHost& host);

// All GPUs that are chosen for ranks, by device_id(). INVALID_ARGUMENT: as bind_host().
base::Result<std::vector<std::string>> chosen_devices(const NodeShape& node, std::span<const RankWish> wishes,
                                                      const GpuMasks& masks);

// Of each of the ranks, whether it is one of those for which GPUs are dealt.
std::vector<bool> are_dealt(const NodeShape& node, std::span<const RankWish> wishes, const Pinning& pinning,
                            const GpuMasks& masks);

// `share`: nullptr: all of the host. Errors as bind_node(), and INVALID_ARGUMENT: a chosen GPU is not there, or is of
// another vendor than the rank's others, or several parts have its name; or there are GPUs, and all of them are chosen,
// so that the other ranks would be dealt none and see all. FAILED_PRECONDITION: there are GPUs for these, and none is
// of the job's share.
base::Result<NodeBinding> bind_host(const NodeShape& node, std::span<const RankWish> wishes, const Pinning& pinning,
                                    const GpuMasks& masks, const HostShare* share = nullptr);

}  // namespace muster::model
