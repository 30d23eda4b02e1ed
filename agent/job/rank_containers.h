// The step from a Launch to its ranks that only jobs with --container have.
#pragma once

#include <string>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/status.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Makes `requests`, those of rank_requests() for `launch`, ones of the container's program. `stores`: names of the
// variables by which ranks find what this host serves. NOT_FOUND: see enter_container().
base::Status put_in_containers(const v1::Launch& launch, const std::vector<std::string>& stores,
                               std::vector<SpawnRequest>& requests);

}  // namespace muster::agent::job
