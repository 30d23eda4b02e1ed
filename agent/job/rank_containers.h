// Puts the ranks of a Launch into containers. Only jobs with --container need this step.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Changes `requests`, which rank_requests() made from `launch`, so that they run the container's program. `stores`
// names the variables by which ranks find what this host serves. NOT_FOUND: see enter_container().
base::Status put_in_containers(const v1::Launch& launch, const std::vector<std::string>& stores,
                               std::vector<SpawnRequest>& requests);

}  // namespace muster::agent::job
