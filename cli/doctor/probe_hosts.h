// Asks hosts about themselves, for commands that report on hosts and start no job.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/reach.h"
#include "launcherd/doctor/findings.h"
#include "model/job_spec.h"

namespace muster::cli::inline doctor {

struct ProbeStyle {
  std::string program;      // stands before each line on stderr: "muster doctor"
  bool verbose = false;     // --verbose
  bool shape_only = false;  // ask only for cores, GPUs and interfaces
};

// Blocks until every host has answered or failed. It shows progress if stderr is a terminal. The error means that this
// machine can ask no host: its agent program is missing, or it has no thread or no port left. The agents get the
// environment and the network of `job`.
base::Result<std::vector<launcherd::HostFindings>> probe_hosts(const model::JobSpec& job, const Reach& reach,
                                                               const std::vector<model::HostSpec>& hosts,
                                                               const base::Environment& environment,
                                                               const ProbeStyle& style);

// Returns each host once, at its first place in the list. Returns localhost if the list is empty.
std::vector<model::HostSpec> distinct_hosts(const std::vector<model::HostSpec>& hosts);

// Returns for each of `hosts` its shape, or why it cannot be asked. A single error means that no host can be asked.
std::vector<base::Result<model::NodeShape>> probe_shapes(const model::JobSpec& job, const Reach& reach,
                                                         const std::vector<model::HostSpec>& hosts,
                                                         const base::Environment& environment, bool verbose);

}  // namespace muster::cli::doctor
