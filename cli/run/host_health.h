// --health-check and --spare: what keeps a host from a job, found out before the job starts.
#pragma once

#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/host_choice.h"
#include "cli/options/options.h"
#include "launcherd/doctor/findings.h"

namespace muster::cli::inline run {

// Not well: a host that does not answer, that fails a check of `muster doctor` other than those of Python programs,
// whose clock is off, that has fewer GPUs than most of the others, or, where the job uses GPUs, whose driver is not as
// it should be while another host's is. Pure.
std::vector<HostHealth> health_of(const std::vector<launcherd::HostFindings>& findings, const std::string& agent_link,
                                  bool uses_gpus);

// Asks all of them at once. The error: this machine cannot ask anybody.
base::Result<std::vector<HostHealth>> check_health(const HvdrunOptions& options,
                                                   const std::vector<model::HostSpec>& hosts,
                                                   const base::Environment& environment);

}  // namespace muster::cli::run
