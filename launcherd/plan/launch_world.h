// Tells MPI libraries which rank runs on which host: the World of a Launch.
//
// Thread: any; pure functions.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "model/job_spec.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// Sets the World in each of `hosts`. Agents serve PMI, PMIx and PALS from the World. Sets no World if the ranks use
// none of these services. `hosts` are those of `placement`, with the cores of their ranks set. `user_set` is the job's
// environment.
void set_world(const model::JobSpec& job, const model::Placement& placement, const std::string& name,
               const base::Environment& user_set, std::vector<v1::Launch>& hosts);

// Returns MPI_UNIVERSE_SIZE: the slots of the hosts, and at least the number of ranks.
int universe_of(const model::Placement& placement);

}  // namespace muster::launcherd::plan
