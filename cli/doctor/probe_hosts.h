// Asks hosts about themselves, for the commands that say something about hosts instead of starting a job.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/options.h"
#include "launcherd/doctor/findings.h"

namespace muster::cli::inline doctor {

struct ProbeStyle {
  std::string program;      // how lines on stderr begin: "muster doctor"
  bool shape_only = false;  // cores, GPUs and interfaces, and nothing else
};

// Blocks until every host has answered or failed; progress goes to a terminal's stderr. The error: this machine cannot
// ask anybody (its agent program is missing, no thread, no port).
base::Result<std::vector<launcherd::HostFindings>> probe_hosts(const HvdrunOptions& options,
                                                               const std::vector<model::HostSpec>& hosts,
                                                               const base::Environment& environment,
                                                               const ProbeStyle& style);

// Each host once, as named first; localhost when there is none.
std::vector<model::HostSpec> distinct_hosts(const std::vector<model::HostSpec>& hosts);

// The shape of each of `hosts`, or why it cannot be asked; a single error when nobody can.
std::vector<base::Result<model::NodeShape>> probe_shapes(const HvdrunOptions& options,
                                                         const std::vector<model::HostSpec>& hosts,
                                                         const base::Environment& environment);

}  // namespace muster::cli::doctor
