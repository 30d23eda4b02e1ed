// Who is where, as MPI's libraries ask for it: the World of a Launch. Pure.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "model/job_spec.h"
#include "model/placement.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline plan {

// Gives each of `hosts`, which are those of `placement` with their ranks' cores, the World that PMI, PMIx and PALS are
// served by; leaves it out where the job's ranks have none of them. `user_set`: the job's environment.
void set_world(const model::JobSpec& job, const model::Placement& placement, const std::string& name,
               const base::Environment& user_set, std::vector<v1::Launch>& hosts);

// MPI_UNIVERSE_SIZE: the slots of its hosts, at least its ranks.
int universe_of(const model::Placement& placement);

}  // namespace muster::launcherd::plan
