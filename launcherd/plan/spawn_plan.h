// Where ranks go that a rank of the job spawns (MPI_Comm_spawn), and what their hosts are sent. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/plan/launch_plan.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// A host of the job, as it is now.
struct SpawnHost {
  std::string name;
  int slots = 0;
  int running = 0;        // ranks there
  int most = 0;           // ranks that it may have at most; 0: as many as one likes
  bool is_usable = true;  // ranks of the job run there, so its agent can start more
};

// For each new rank the index of its host, ascending: block after block in the order of `hosts`, each up to its slots;
// with `oversubscribe` the others go one a host in turn. RESOURCE_EXHAUSTED: not enough free slots. INVALID_ARGUMENT:
// the request has no program, no ranks or too many, or names a host that the job does not have.
base::Result<std::vector<int>> place_spawned(const v1::SpawnRequest& request, const std::vector<SpawnHost>& hosts,
                                             bool oversubscribe);

// Ranks that a rank of the job has spawned. They have numbers of the job from `first` on.
struct SpawnedRanks {
  std::string name;  // World.name
  int first = 0;
  std::vector<int> host_of;  // of place_spawned(): indexes into the job's placement
};

// For each host of `placement` what it is told, with or without ranks of its own. `facts`: of these hosts. The ranks
// are those of a job of their own: MUSTER_RANK counts from 0. They are bound to no cores and no GPUs.
base::Result<std::vector<v1::AddWorld>> plan_spawned(const model::JobSpec& job, const model::Placement& placement,
                                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                                     const std::string& master_address,
                                                     const base::Environment& launcher_environment,
                                                     const v1::SpawnRequest& request, const SpawnedRanks& ranks);

}  // namespace muster::launcherd::plan
