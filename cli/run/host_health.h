// --health-check and --spares: finds the hosts that are unfit for a job, before the job starts.
#pragma once

#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/host_choice.h"
#include "cli/options/reach.h"
#include "launcherd/doctor/findings.h"
#include "model/job_spec.h"

namespace muster::cli::inline run {

// Judges the hosts. A host has a problem in each of these cases:
// - It does not answer.
// - It fails a check of `muster doctor`, except those of Python programs.
// - Its clock is off.
// - It has fewer GPUs than most of the others.
// - The job uses GPUs, and this host's GPU driver has a problem while another host's has none.
// Pure.
std::vector<HostHealth> health_of(const std::vector<launcherd::HostFindings>& findings, const std::string& agent_link,
                                  bool uses_gpus);

// Asks all hosts at once. The error means that this machine can ask no host. `verbose` is --verbose.
base::Result<std::vector<HostHealth>> check_health(const model::JobSpec& job, const Reach& reach,
                                                   const std::vector<model::HostSpec>& hosts,
                                                   const base::Environment& environment, bool verbose);

}  // namespace muster::cli::run
