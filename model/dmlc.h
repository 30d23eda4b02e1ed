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
  std::vector<std::string> server_environment{};  // NAME=VALUE, of the servers alone
  std::vector<std::string> worker_environment{};
};

// Scheduler, servers, workers: in rank order, so that the scheduler is rank 0, on the first host. The workers are who
// the job is for; the others serve them.
std::vector<Role> dmlc_roles(const DmlcCounts& counts);

// As dmlc's launch.py deals them: round the hosts, servers first, then workers; `server_hosts`: another list for the
// servers, or empty. The scheduler runs on the first host. Slots count for workers where a list gives them: a host gets
// no more workers than it has slots, unless all are full and `oversubscribe`. RESOURCE_EXHAUSTED: too few slots.
base::Result<std::vector<RankPlace>> dmlc_places(const DmlcCounts& counts, const std::vector<HostSpec>& hosts,
                                                 const std::vector<HostSpec>& server_hosts, bool oversubscribe);

// What ps-lite reads in a rank of `role`: DMLC_ROLE, DMLC_PS_ROOT_URI and _PORT, DMLC_NUM_WORKER and _SERVER,
// DMLC_NODE_HOST, DMLC_INTERFACE (unless the user set it), DMLC_TASK_ID, DMLC_NUM_ATTEMPT. `address`: of the rank's
// host on the way to the scheduler; empty: not known.
std::vector<std::pair<std::string, std::string>> dmlc_variables(const std::vector<Role>& roles,
                                                                const RankEnvInput& input, const std::string& address,
                                                                const base::Environment& user_set);

}  // namespace muster::model
