// From a Launch to what the warden is asked to start: the ranks' commands, environments and limits. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/env.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// One for each rank of `launch`, in its order, without what they get as stdin. `login`: the ground of the environment;
// `stores`: the variables by which ranks find this host's stores.
std::vector<SpawnRequest> rank_requests(const v1::Launch& launch, const base::Environment& login,
                                        const std::vector<std::pair<std::string, std::string>>& stores);

}  // namespace muster::agent::job
