// Several programs on one command line, as mpirun has them: hvdrun -np 1 ./a : -np 4 ./b. And the roles of a job file.
//
// A word ":" that is followed by an option begins the next program; behind a "--" it is a word like any other. What is
// said before the first command holds for all, but for -np, -H, -x and --wdir: those four belong to their own program.
#pragma once

#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/command_line.h"
#include "cli/options/settings.h"
#include "model/job_spec.h"

namespace muster::cli::inline options {

// Takes the programs of `line` off it, with the options that belong to them, and makes a role of each, named after its
// program; else the roles of the configuration file that the line or the environment names. Empty: there is one
// program, and `line` is as it was. Reads that file.
base::Result<std::vector<model::Role>> take_programs(CommandLine& line, const base::Environment& environment,
                                                     const FlagTable& table);

// Whether there is a second program on the line.
bool has_programs(const CommandLine& line, const FlagTable& table);

// Of a role whose number of ranks nobody has said: one a slot, a host without a number counts as one.
int slots_of(const std::vector<model::HostSpec>& hosts);

// Into the job, whose other options are `settings`.
base::Status set_roles(std::vector<model::Role> roles, const Settings& settings, model::JobSpec& job);

}  // namespace muster::cli::options
