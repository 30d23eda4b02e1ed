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

inline constexpr int kMostRoles = 1'000;  // most roles of one job

struct Role {
  std::string name{};                      // unique within a job
  int np = 1;                              // number of ranks
  std::vector<std::string> command{};      // empty means the job's
  std::vector<std::string> environment{};  // NAME or NAME=VALUE; overrides the job's
  std::string workdir{};                   // empty means the job's
  std::vector<HostSpec> hosts{};           // empty: any host of the job; otherwise only these, up to their slots
  // The role serves the others. The job has no more use for it when all other roles have ended.
  bool is_service = false;
};

// A rank's position in its role.
struct RoleOfRank {
  const Role* role = nullptr;  // nullptr if the job has no roles
  int rank = 0;                // within the role
};
RoleOfRank role_of(const std::vector<Role>& roles, int rank);

// Returns the ranks of roles that are services; also empty if all roles are.
std::set<int> service_ranks(const std::vector<Role>& roles);

// Returns the number of ranks of all roles together.
int count_ranks(const std::vector<Role>& roles);

// `ranks_of_programs` has the number of ranks of each program, in rank order. Returns the index of `rank`'s program; 0
// if there is none.
int program_of(const std::vector<int>& ranks_of_programs, int rank);

// True if the name has 1 to 64 characters, all of them letters, digits, '.', '_' or '-', and does not begin with '.' or
// '-'. Role names go into variables and tables.
bool is_role_name(std::string_view text);

// Checks names and numbers, and that each name is unique. The error names the role.
base::Status check_roles(const std::vector<Role>& roles);

}  // namespace muster::model
