// Tells MPI libraries which rank runs on which host: the World of a Launch.
//
// Thread: any; pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "model/job_event.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::launcherd::inline plan {

// Returns Launch.world, which is the same for all hosts. Agents serve PMI, PMIx and PALS from it. Empty if the ranks
// use none of these services. `bindings` has the cores of all ranks, by rank. `user_set` is the job's environment.
std::string world_of_job(const model::JobSpec& job, const model::Placement& placement, const std::string& name,
                         const base::Environment& user_set, const std::vector<model::BoundRank>& bindings);

// Returns MPI_UNIVERSE_SIZE: the slots of the hosts, and at least the number of ranks.
int universe_of(const model::Placement& placement);

}  // namespace muster::launcherd::plan
