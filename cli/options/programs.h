// Reads several programs from one command line, as mpirun does: hvdrun -np 1 ./a : -np 4 ./b. It also takes the roles
// of a job file.
// A word ":" begins the next program if an option follows it. After a "--", ":" is an ordinary word. Options before the
// first command hold for all programs, except -np, -H, -x and --wdir. These four belong to their own program.
#pragma once

#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"
#include "model/job_spec.h"

namespace muster::cli::inline options {

// Removes the programs and their own options from `line`, and makes a role of each. The role is named after the
// program.
// If `line` has one program only, reads the configuration file that the line or the environment names, and returns the
// file's roles. If the file has none, returns an empty list and leaves `line` unchanged.
base::Result<std::vector<model::Role>> read_programs(CommandLine& line, const base::Environment& environment,
                                                     const FlagTable& table);

// True if the line has a second program.
bool has_programs(const CommandLine& line, const FlagTable& table);

// Returns the number of ranks of a role for which the user gave none: one for each slot. A host without a number has
// one slot.
int slots_of(const std::vector<model::HostSpec>& hosts);

// Puts the roles into `job`. `settings` are the job's other options. INVALID_ARGUMENT if they set a number of ranks,
// too.
base::Status set_roles(std::vector<model::Role> roles, const Settings& settings, model::JobSpec& job);

}  // namespace muster::cli::options
