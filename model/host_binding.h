// The ranks of one host and what each gets of it: dealt as model/gpu_binding.h does, but for those whose cores or GPUs
// somebody has chosen (RankPlace), and within the share of the host that the job has. Pure.
//
// A chosen GPU is named by its UUID, or its PCI address; a part of a divided one by its UUID. It must be there. Who has
// GPUs chosen for him sees these alone; the others are dealt none of them, and no core that was chosen.
#pragma once

#include <span>

#include "base/status.h"
#include "model/gpu_binding.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::model {

// Of each of the host's ranks where it was told to run; without places: nullptr each.
std::vector<const RankPlace*> places_on(std::span<const RankPlace> places, const PlacedHost& host);

// `share`: nullptr: all of the host. Errors as bind_node(), and INVALID_ARGUMENT: a chosen GPU is not there, or is of
// another vendor than the rank's others. FAILED_PRECONDITION: there are GPUs for the job, and none is of its share.
base::Result<NodeBinding> bind_host(const NodeShape& node, std::span<const RankPlace* const> places,
                                    const Pinning& pinning, const GpuMasks& masks, const HostShare* share = nullptr);

}  // namespace muster::model
