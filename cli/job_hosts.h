// Where a job runs: the hosts of -H, of a hostfile, of the allocation around us, or this one. Reads files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "cli/options.h"

namespace muster::cli {

// Fills job.placement.hosts; leaves it empty where the job runs on this host. Returns a line for --verbose that says
// where the hosts come from; empty when the user has named them. Paths are relative to `directory`.
base::Result<std::string> choose_hosts(HvdrunOptions& options, const base::Environment& environment,
                                       const std::string& directory);

struct PlacedJob {
  model::Placement placement;
  std::string hosts_note;  // of choose_hosts()
};

// What hosts look like, one result each. May start agents there.
using LookAtHosts = std::function<std::vector<base::Result<model::NodeShape>>(const std::vector<model::HostSpec>&)>;

// 2: the command line is at fault; 125: a host, or a program that names hosts.
int placement_exit_code(const base::Status& failure);

// What the options leave to their surroundings: directory, umask, hosts; and who runs where. Hosts are looked at only
// where their devices count (options.devices).
base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory, const LookAtHosts& look);

}  // namespace muster::cli
