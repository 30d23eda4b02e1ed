// The command `muster-agent --cleanup` for HostCommand, and its reports.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "launcherd/cleanup/host_command.h"
#include "model/host_spec.h"
#include "proto/muster/v1/cleanup.pb.h"

namespace muster::launcherd::inline cleanup {

struct CleanupPlan {
  std::vector<model::HostSpec> hosts;  // each host once; at least one host
  std::string job;                     // a job id; with dry_run also its first letters; empty means all jobs
  bool dry_run = false;
  std::string session_root;  // MUSTER_TMPDIR; empty means each host's own value
};

std::vector<std::string> cleanup_arguments(const CleanupPlan& plan);

// Returns one report per host of the plan.
std::vector<v1::CleanupReport> cleanup_reports(const CleanupPlan& plan, const HostCommand::Results& results);

}  // namespace muster::launcherd::cleanup
