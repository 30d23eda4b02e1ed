// Places the ranks of a job on hosts. model/placement.h does that for a job whose ranks are alike; this file adds
// chosen places and roles. Pure.
//
// Roles are placed one after the other, onto the slots that earlier roles have left. A role that names hosts is placed
// on those alone. The host of rank 0 comes first in the placement.
#pragma once

#include "base/status.h"
#include "model/job_spec.h"
#include "model/placement.h"

namespace muster::model {

// Returns the errors of model::place(). An error of a role names the role.
base::Result<Placement> place(const JobSpec& job);

// Returns one RankPlace for each rank, with its host, for callers that do not accept a Placement.
std::vector<RankPlace> places_of(const Placement& placement);

// Replaces the host `from` by `to` everywhere in the job.
void rename_host(const std::string& from, const std::string& to, JobSpec& job);

// Returns the programs that the job runs, for people: its command, or its roles' commands with ":" between them.
std::vector<std::string> all_commands(const JobSpec& job);

// Returns the names of a job's roles and their ranks, for its placement.
std::vector<RoleRanks> role_ranks(const std::vector<Role>& roles);

}  // namespace muster::model
