// Allreduce of ranks on several hosts: shared memory inside a host, links between hosts.
//
// A vector passes in chunks, and each chunk is cut into slices. On each host, one rank owns a slice and reduces it from
// all ranks there. The owners of the same slice on all hosts then reduce theirs over links. Finally all ranks of a host
// copy the result. So every byte leaves a host once, and all owners send at the same time.
#pragma once

#include "base/status.h"
#include "collectives/algorithm/choice.h"
#include "collectives/algorithm/reduce_task.h"
#include "collectives/call/call.h"
#include "collectives/transport/exchange.h"
#include "collectives/transport/host_team.h"

namespace muster::collectives::inline algorithm {

struct Hierarchy {
  HostTeam& team;
  int slices = 1;  // local ranks below this number own one slice each; at most the ranks of the smallest host
  LinkSpeed link{};
  Exchange* between = nullptr;  // between the owners of this rank's slice on all hosts; null if this rank owns no slice
};

base::Status hierarchical_allreduce(const Hierarchy& hierarchy, const Operation& operation,
                                    const ReduceTask& reduction);

}  // namespace muster::collectives::algorithm
