// `muster dmlc`: takes the line of dmlc's and MXNet's launch.py and makes of it the job that hvdrun runs.
//
//   muster dmlc -n 2 -s 2 -H hosts --launcher ssh "python cifar10_dist.py"
//
// Here -H is a file of hosts, one a line, as name or name:SSHPORT, and the command is a line for a shell. A leading
// `launch.py` or `python … launch.py` is recognised. hvdrun's options may stand beside launch.py's, but for those that
// it names otherwise (-np, -H LIST, --hostfile, --env, --launcher).
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline foreign {

// Those of `muster dmlc`: launch.py's, and hvdrun's that do not say how many ranks and where.
const FlagTable& dmlc_flags();

// Reads the files of hosts. Mistakes begin with "muster dmlc: ".
ParsedHvdrun parse_dmlc(const std::vector<std::string>& arguments, const base::Environment& environment,
                        const ParseContext& context);

// A file of hosts as launch.py reads it: name, name:SSHPORT, perhaps with user@; what follows after a blank (slots=4)
// is not looked at. Pure. Errors name file and line.
base::Result<std::vector<model::HostSpec>> parse_dmlc_hosts(std::string_view content, std::string_view file_name);

const CommandDoc& dmlc_doc();

}  // namespace muster::cli::foreign
