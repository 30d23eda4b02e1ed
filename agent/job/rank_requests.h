// Makes the start requests for the warden from a Launch: the ranks' commands, environments and limits. Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "agent/launch/spawn_request.h"
#include "base/env.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline job {

// Returns one request for each rank of `launch`, in its order, without stdin. The environment is built on `login`.
// `stores` are the variables by which ranks find this host's stores.
std::vector<SpawnRequest> rank_requests(const v1::Launch& launch, const base::Environment& login,
                                        const std::vector<std::pair<std::string, std::string>>& stores);

}  // namespace muster::agent::job
