#include "cli/job_hosts.h"

#include "cli/surroundings.h"
#include "launcherd/hosts/allocation.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::cli {

base::Result<std::string> choose_hosts(HvdrunOptions& options, const base::Environment& environment,
                                       const std::string& directory) {
  std::vector<model::HostSpec>& hosts = options.job.placement.hosts;
  if (!options.hostfile.empty()) {
    MUSTER_ASSIGN_OR_RETURN(hosts, launcherd::read_hostfile(absolute_path(options.hostfile, directory)));
    return std::string();
  }
  if (!hosts.empty()) return std::string();
  MUSTER_ASSIGN_OR_RETURN(auto allocation, launcherd::find_allocation(environment));
  if (!allocation) return std::string();
  hosts = std::move(allocation->hosts);
  return fmt::format("hosts from the {} allocation ({}); -H names others", allocation->scheduler, allocation->source);
}

base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory) {
  model::JobSpec& job = options.job;
  job.workdir = job.workdir.empty() ? directory : absolute_path(job.workdir, directory);
  job.umask = current_umask();
  PlacedJob placed;
  MUSTER_ASSIGN_OR_RETURN(placed.hosts_note, choose_hosts(options, environment, directory));
  MUSTER_ASSIGN_OR_RETURN(placed.placement, model::place(job.placement));
  return placed;
}

}  // namespace muster::cli
