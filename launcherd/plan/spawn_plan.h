// Decides on which hosts spawned ranks run (MPI_Comm_spawn), and what the agents of these hosts receive.
//
// Thread: any; pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "launcherd/plan/launch_plan.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// The current state of one host of the job.
struct SpawnHost {
  std::string name;
  int slots = 0;
  int running = 0;        // ranks of the job that run on the host
  int most = 0;           // limit on ranks; 0 means no limit
  bool is_usable = true;  // true if ranks of the job run on the host, so that its agent can start more
};

// Returns for each new rank the index of its host, in ascending order. Fills host after host in the order of `hosts`,
// each up to its slots. With `oversubscribe` it then spreads the remaining ranks one by one over the hosts.
// RESOURCE_EXHAUSTED: not enough free slots.
// INVALID_ARGUMENT: the request has no program, no ranks or too many, or names a host without ranks of the job.
base::Result<std::vector<int>> place_spawned(const v1::SpawnRequest& request, const std::vector<SpawnHost>& hosts,
                                             bool oversubscribe);

// Ranks that a rank of the job has spawned. `first` is the number of the first such rank within the job.
struct SpawnedRanks {
  std::string name;  // World.name
  int first = 0;
  std::vector<int> host_of;  // from place_spawned(): indexes into the job's placement
};

// Returns the message for each host of `placement`, also for hosts without new ranks. `facts` describe these hosts. The
// new ranks form a job of their own, so MUSTER_RANK counts from 0. The new ranks are bound to no cores and no GPUs.
base::Result<std::vector<v1::AddWorld>> plan_spawned(const model::JobSpec& job, const model::Placement& placement,
                                                     const std::vector<HostFacts>& facts, const Attempt& attempt,
                                                     const std::string& master_address,
                                                     const base::Environment& launcher_environment,
                                                     const v1::SpawnRequest& request, const SpawnedRanks& ranks);

}  // namespace muster::launcherd::plan
