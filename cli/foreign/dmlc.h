// `muster dmlc`: converts the command line of dmlc's and MXNet's launch.py into a job that hvdrun runs.
//
//   muster dmlc -n 2 -s 2 -H hosts --launcher ssh "python cifar10_dist.py"
//
// Here -H is a file of hosts, one in each line, as name or name:SSHPORT. The command is one line for a shell. A leading
// `launch.py` or `python … launch.py` is recognised. hvdrun's options may be mixed with those of launch.py, except
// options that launch.py names otherwise (-np, -H LIST, --hostfile, --env, --launcher).
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline foreign {

// Returns the options of `muster dmlc`: launch.py's options, and hvdrun's except those for the number and the
// hosts of ranks.
const FlagTable& dmlc_flags();

// Reads the files of hosts. Mistakes begin with "muster dmlc: ".
ParsedHvdrun parse_dmlc(const std::vector<std::string>& arguments, const base::Environment& environment,
                        const ParseContext& context);

// Parses a file of hosts as launch.py does: name or name:SSHPORT, with an optional user@. Text after a blank (slots=4)
// is ignored. Errors name file and line. Pure.
base::Result<std::vector<model::HostSpec>> parse_dmlc_hosts(std::string_view content, std::string_view file_name);

const CommandDoc& dmlc_doc();

}  // namespace muster::cli::foreign
