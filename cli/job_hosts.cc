#include "cli/job_hosts.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <set>

#include "base/strings.h"
#include "cli/held_signals.h"
#include "cli/surroundings.h"
#include "launcherd/hosts/allocation.h"
#include "launcherd/hosts/discovery.h"
#include "launcherd/hosts/hostfile.h"
#include "model/gpu_binding.h"
#include "model/gpu_mask.h"

namespace muster::cli {
namespace {

constexpr std::chrono::seconds kDiscoveryLimit{60};

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

// One status that says what all of them say; ok: there are none.
base::Status all_of(const std::vector<base::Status>& failures) {
  if (failures.empty()) return base::ok_status();
  std::vector<std::string> messages;
  for (const base::Status& failure : failures) messages.push_back(failure.message());
  return {failures.front().code(), base::join(messages, "; ")};
}

// How many ranks a host of this shape gets.
base::Result<int> count_devices(const DeviceCount& devices, const std::string& host, const model::NodeShape& shape,
                                const model::GpuMasks& masks) {
  using Of = DeviceCount::Of;
  const int gpus = model::count_gpus(shape, masks);
  if (devices.of == Of::kGpus && gpus == 0) {
    return base::error(base::Code::kFailedPrecondition, "no GPU is seen on {}: --nproc-per-node cpu, or a number",
                       host);
  }
  if (devices.of == Of::kGpus || (devices.of == Of::kGpusElseCpus && gpus > 0)) return gpus;
  std::size_t cpus = 0;
  for (const model::CoreShape& core : shape.cores) cpus += core.cpus.size();
  return static_cast<int>(cpus);
}

// Sets the slots of the hosts that have no explicit ones; none named: this host. A host named twice counts once. The
// error names all hosts that cannot be counted.
base::Status count_slots(const DeviceCount& devices, const model::JobSpec& job, const base::Environment& environment,
                         const LookAtHosts& look, std::vector<model::HostSpec>& hosts) {
  if (hosts.empty()) hosts.push_back({.name = "localhost"});
  std::vector<model::HostSpec> unknown;
  std::erase_if(hosts, [&](const model::HostSpec& host) {
    if (host.slots) return false;
    const bool is_again = std::ranges::find(unknown, host) != unknown.end();
    if (!is_again) unknown.push_back(host);
    return is_again;
  });
  if (unknown.empty()) return base::ok_status();
  const auto shapes = look(unknown);
  std::vector<base::Status> failures;
  auto host = hosts.begin();
  for (const base::Result<model::NodeShape>& shape : shapes) {
    host = std::find_if(host, hosts.end(), [](const model::HostSpec& each) { return !each.slots; });
    MUSTER_CHECK(host != hosts.end());
    model::GpuMasks masks;
    model::set_gpu_masks(model::exported_variables(environment, job.environment, model::is_localhost(*host)), masks);
    const base::Result<int> count = shape.ok() ? count_devices(devices, host->name, *shape, masks) : shape.status();
    if (!count.ok()) failures.push_back(count.status());
    host->slots = count.ok() ? *count : 0;
  }
  return all_of(failures).with_context(devices.label);
}

// --min-np and --max-np at the start.
base::Status fit_elastic(const ElasticOptions& elastic, const model::PlacementRequest& request,
                         model::Placement& placement) {
  if (elastic.max_ranks && request.np == 0 && placement.size > *elastic.max_ranks) {
    model::PlacementRequest fewer = request;
    fewer.np = static_cast<int>(*elastic.max_ranks);
    MUSTER_ASSIGN_OR_RETURN(placement, model::place(fewer));
  }
  if (elastic.min_ranks && placement.size < *elastic.min_ranks) {
    return base::error(base::Code::kInvalidArgument,
                       "--min-np asks for {} ranks, and there are {}: name more hosts or slots", *elastic.min_ranks,
                       placement.size);
  }
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
  if (!options.elastic.discovery_script.empty()) {
    // The script has a session of its own: Ctrl-C would end us alone.
    MUSTER_ASSIGN_OR_RETURN(const HeldSignals signals, HeldSignals::open());
    const launcherd::Waiter waiter{.cancel_fd = signals.fd(),
                                   .deadline = std::chrono::steady_clock::now() + kDiscoveryLimit};
    MUSTER_ASSIGN_OR_RETURN(hosts, launcherd::discover_hosts(options.elastic.discovery_script, waiter));
    for (model::HostSpec& host : hosts) {
      if (!host.slots && options.elastic.slots_per_host) host.slots = static_cast<int>(*options.elastic.slots_per_host);
    }
    return fmt::format("hosts from {}", options.elastic.discovery_script);
  }
  if (!hosts.empty()) return std::string();
  MUSTER_ASSIGN_OR_RETURN(auto allocation, launcherd::find_allocation(environment));
  if (!allocation) return std::string();
  hosts = std::move(allocation->hosts);
  return fmt::format("hosts from the {} allocation ({}); -H names others", allocation->scheduler, allocation->source);
}

int placement_exit_code(const base::Status& failure) {
  constexpr base::Code kWorld[] = {base::Code::kUnavailable, base::Code::kDeadlineExceeded, base::Code::kCancelled};
  return std::ranges::find(kWorld, failure.code()) == std::end(kWorld) ? 2 : 125;
}

base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory, const LookAtHosts& look) {
  model::JobSpec& job = options.job;
  job.workdir = job.workdir.empty() ? directory : absolute_path(job.workdir, directory);
  job.umask = current_umask();
  PlacedJob placed;
  MUSTER_ASSIGN_OR_RETURN(placed.hosts_note, choose_hosts(options, environment, directory));
  if (options.nodes) MUSTER_RETURN_IF_ERROR(limit_hosts(*options.nodes, job.placement.hosts));
  if (options.devices) {
    MUSTER_RETURN_IF_ERROR(count_slots(*options.devices, job, environment, look, job.placement.hosts));
  }
  MUSTER_ASSIGN_OR_RETURN(placed.placement, model::place(job.placement));
  MUSTER_RETURN_IF_ERROR(fit_elastic(options.elastic, job.placement, placed.placement));
  MUSTER_RETURN_IF_ERROR(model::check_input(job.input, placed.placement.size));
  return placed;
}

}  // namespace muster::cli
