// Several programs as one job (MPMD). Each role is one program with its number of ranks. Ranks are numbered in the
// order of the roles. Plain values.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/host_spec.h"

namespace muster::model {

inline constexpr int kMostRoles = 1'000;  // of one job

struct Role {
  std::string name{};                      // of one job: each once
  int np = 1;                              // ranks
  std::vector<std::string> command{};      // empty: the job's
  std::vector<std::string> environment{};  // NAME or NAME=VALUE, over the job's
  std::string workdir{};                   // empty: the job's
  std::vector<HostSpec> hosts{};           // empty: any of the job's; else of these, with at most these slots of each
  // It is there for the others: when all of them have ended, it has had its time.
  bool is_service = false;
};

// Where a rank stands in its role.
struct RoleOfRank {
  const Role* role = nullptr;  // nullptr: the job has no roles
  int rank = 0;                // within the role
};
RoleOfRank role_of(const std::vector<Role>& roles, int rank);

// Those of roles that are services; empty also if all are.
std::set<int> service_ranks(const std::vector<Role>& roles);

// Of all roles together.
int count_ranks(const std::vector<Role>& roles);

// Of programs with so many ranks each, in rank order, the index of `rank`'s; 0 where there is none for it.
int program_of(const std::vector<int>& ranks_of_programs, int rank);

// Letters, digits and ._-, not beginning with . or -, at most 64: names go into variables and tables.
bool is_role_name(std::string_view text);

// Names, numbers and that each name is there once; a sentence that names the role.
base::Status check_roles(const std::vector<Role>& roles);

}  // namespace muster::model
