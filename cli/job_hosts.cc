#include "cli/job_hosts.h"

#include <set>

#include "cli/surroundings.h"
#include "launcherd/hosts/allocation.h"
#include "launcherd/hosts/hostfile.h"

namespace muster::cli {
namespace {

// Keeps the first `nodes.max` hosts; entries of one host count once.
base::Status limit_hosts(const NodeCount& nodes, std::vector<model::HostSpec>& hosts) {
  std::set<std::string> kept;
  std::vector<model::HostSpec> result;
  for (const model::HostSpec& host : hosts) {
    if (!kept.contains(host.name) && kept.size() == static_cast<std::size_t>(nodes.max)) continue;
    kept.insert(host.name);
    result.push_back(host);
  }
  const std::size_t known = hosts.empty() ? 1 : kept.size();  // without names: this host
  if (known < static_cast<std::size_t>(nodes.min)) {
    return base::error(base::Code::kInvalidArgument,
                       "{} asks for {} hosts, and {} known: name them by -H n1,n2 or --hostfile", nodes.label,
                       nodes.min, known == 1 ? "one is" : fmt::format("{} are", known));
  }
  hosts = std::move(result);
  return base::ok_status();
}

}  // namespace

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
  if (options.nodes) MUSTER_RETURN_IF_ERROR(limit_hosts(*options.nodes, job.placement.hosts));
  MUSTER_ASSIGN_OR_RETURN(placed.placement, model::place(job.placement));
  MUSTER_RETURN_IF_ERROR(model::check_input(job.input, placed.placement.size));
  return placed;
}

}  // namespace muster::cli
