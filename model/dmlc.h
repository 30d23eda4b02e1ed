// MXNet's parameter server as roles of a job: one scheduler, servers and workers. All of them run the user's command;
// DMLC_ROLE tells them apart (one of ps-lite's variables). Pure.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/env.h"
#include "model/job_spec.h"
#include "model/rank_env.h"

namespace muster::model {

struct DmlcCounts {
  int workers = 1;
  int servers = 1;
  std::vector<std::string> server_environment{};  // NAME=VALUE, for the servers only
  std::vector<std::string> worker_environment{};
};

// Returns scheduler, servers and workers in rank order. So the scheduler is rank 0, on the first host. The job is for
// the workers; the other roles are services.
std::vector<Role> dmlc_roles(const DmlcCounts& counts);

// Deals ranks as dmlc's launch.py does: round the hosts, servers first, then workers. `server_hosts` is a separate list
// for the servers; empty means none. The scheduler runs on the first host. Slots limit the workers if a list gives
// them. A host gets more workers than slots only if all hosts are full and `oversubscribe` is set. RESOURCE_EXHAUSTED
// if there are too few slots.
base::Result<std::vector<RankPlace>> dmlc_places(const DmlcCounts& counts, const std::vector<HostSpec>& hosts,
                                                 const std::vector<HostSpec>& server_hosts, bool oversubscribe);

// Returns the variables that ps-lite reads in a rank of `role`: DMLC_ROLE, DMLC_PS_ROOT_URI and _PORT, DMLC_NUM_WORKER
// and _SERVER, DMLC_NODE_HOST, DMLC_INTERFACE (unless the user set it), DMLC_TASK_ID, DMLC_NUM_ATTEMPT. `address` is
// that of the rank's host on the route to the scheduler; empty if unknown.
std::vector<std::pair<std::string, std::string>> dmlc_variables(const std::vector<Role>& roles,
                                                                const RankEnvInput& input, const std::string& address,
                                                                const base::Environment& user_set);

}  // namespace muster::model
