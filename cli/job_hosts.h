// Where a job runs: the hosts of -H, of a hostfile, of the allocation around us, or this one. Reads files.
#pragma once

#include <string>

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

// What the options leave to their surroundings: directory, umask, hosts; and who runs where.
base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory);

}  // namespace muster::cli
