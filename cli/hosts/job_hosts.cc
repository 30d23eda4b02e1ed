// This file finds the hosts of a job, counts their slots and places the ranks.
// Read from the end: place_job(), find_hosts(), list_hosts(), then count_slots() and count_gpu_slots().
#include "cli/hosts/job_hosts.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <iterator>
#include <map>
#include <set>

#include "base/strings.h"
#include "cli/hosts/env_file.h"
#include "cli/hosts/held_signals.h"
#include "cli/hosts/slot_wait.h"
#include "cli/hosts/stage_env.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/dmlc_job.h"
#include "job_templates/shape.h"
#include "launcherd/hosts/allocation.h"
#include "launcherd/hosts/ask_program.h"
#include "launcherd/hosts/hostfile.h"
#include "model/exit_code.h"
#include "model/gpu_binding.h"
#include "model/gpu_mask.h"
#include "model/host_group.h"
#include "model/job_placement.h"

namespace muster::cli::inline hosts {
namespace {

// Keeps the first `nodes.max` hosts; several entries of one host count once. A note names the hosts that are left out.
// Hosts that are left out become spares if the job may use them later.
base::Status limit_hosts(const NodeCount& nodes, model::FailurePolicy& policy, std::vector<model::HostSpec>& hosts,
                         std::vector<std::string>& notes) {
  std::set<std::string> kept;
  std::vector<std::string> left_out;
  std::vector<model::HostSpec> result;
  for (const model::HostSpec& host : hosts) {
    if (!kept.contains(host.name) && kept.size() == static_cast<std::size_t>(nodes.max)) {
      if (std::ranges::find(left_out, host.name) == left_out.end()) {
        left_out.push_back(host.name);
        if (model::may_change_hosts(policy)) policy.spares.push_back(host);
      }
      continue;
    }
    kept.insert(host.name);
    result.push_back(host);
  }
  const std::size_t known = hosts.empty() ? 1 : kept.size();  // an empty list means this host
  if (known < static_cast<std::size_t>(nodes.min)) {
    return base::invalid_argument("{} needs {} hosts, but only {} known: name more by -H n1,n2 or --hostfile",
                                  nodes.label, nodes.min, known == 1 ? "one is" : fmt::format("{} are", known));
  }
  if (!left_out.empty()) {
    const std::string rest = left_out.size() == 1 ? "" : fmt::format(" and {} more", left_out.size() - 1);
    notes.push_back(fmt::format("{} takes {} of {} hosts: {}{} {} left out", nodes.label, kept.size(),
                                kept.size() + left_out.size(), left_out.front(), rest,
                                left_out.size() == 1 ? "is" : "are"));
  }
  hosts = std::move(result);
  return base::ok_status();
}

// Joins the failures into one status; OK if there are none.
base::Status all_of(const std::vector<base::Status>& failures) {
  if (failures.empty()) return base::ok_status();
  constexpr std::size_t kMostFailures = 3;
  std::vector<std::string> messages;
  for (const base::Status& failure : failures) messages.push_back(failure.message());
  const std::size_t named = std::min(messages.size(), kMostFailures);
  std::string text = fmt::format("{}", fmt::join(messages.begin(), messages.begin() + static_cast<long>(named), "; "));
  if (named < messages.size()) text += fmt::format("; and {} more hosts failed", messages.size() - named);
  return {failures.front().code(), text};
}

// Returns the number of ranks for which a host of this shape has GPUs, if they are bound as the job asks.
base::Result<int> count_gpus(const model::NodeShape& shape, const model::JobSpec& job,
                             const base::Environment& environment, const model::HostSpec& host) {
  model::GpuMasks masks;
  model::set_gpu_masks(model::exported_variables(environment, job.environment, model::is_localhost(host)), masks);
  return model::most_ranks(shape, job.pinning, masks);
}

// Returns how many ranks a host of this shape gets.
base::Result<int> count_devices(const DeviceCount& devices, const std::string& host, const model::NodeShape& shape,
                                const base::Result<int>& counted) {
  using Of = DeviceCount::Of;
  if (devices.of == Of::kGpus && !counted.ok()) return counted.status().with_context(host);
  const int gpus = counted.ok() ? *counted : 0;
  if (devices.of == Of::kGpus && gpus == 0) {
    return base::failed_precondition("{} has no visible GPU: give --nproc-per-node cpu, or a number", host);
  }
  if (devices.of == Of::kGpus || (devices.of == Of::kGpusElseCpus && gpus > 0)) return gpus;
  std::size_t cpus = 0;
  for (const model::CoreShape& core : shape.cores) cpus += core.cpus.size();
  return static_cast<int>(cpus);
}

// Sets the slots of hosts that have no explicit ones. An empty list means this host. A host that is listed twice counts
// once. The error names all hosts that cannot be counted.
base::Status count_slots(const DeviceCount& devices, const model::JobSpec& job, const base::Environment& environment,
                         const ProbeShapes& probe, std::vector<model::HostSpec>& hosts) {
  if (hosts.empty()) hosts.push_back({.name = "localhost"});
  std::vector<model::HostSpec> unknown;
  std::erase_if(hosts, [&](const model::HostSpec& host) {
    if (host.slots) return false;
    const bool is_again = std::ranges::find(unknown, host) != unknown.end();
    if (!is_again) unknown.push_back(host);
    return is_again;
  });
  if (unknown.empty()) return base::ok_status();
  const auto shapes = probe(unknown);
  std::vector<base::Status> failures;
  auto host = hosts.begin();
  for (const base::Result<model::NodeShape>& shape : shapes) {
    host = std::find_if(host, hosts.end(), [](const model::HostSpec& each) { return !each.slots; });
    MUSTER_CHECK(host != hosts.end());
    const base::Result<int> count =
        shape.ok() ? count_devices(devices, host->name, *shape, count_gpus(*shape, job, environment, *host))
                   : shape.status();
    if (!count.ok()) failures.push_back(count.status());
    host->slots = count.ok() ? *count : 0;
  }
  return all_of(failures).with_context(devices.label);
}

bool may_use_ssh(const Reach& reach) {
  using launcherd::BootstrapBy;
  return reach.bootstrap.by == BootstrapBy::kAuto || reach.bootstrap.by == BootstrapBy::kSsh;
}

// True if slots must be counted as GPUs. This holds for hosts listed once and without slots, by the user or by a
// scheduler that counts no tasks. No host is asked if one rank each is enough, which is horovodrun's rule, or if
// another option gives the number on each host.
bool counts_gpus(const JobRequest& request, const Reach& reach) {
  const model::PlacementRequest& placement = request.job.placement;
  const bool is_fixed = !may_use_ssh(reach) || request.devices || placement.ranks_per_node > 0 ||
                        !request.job.roles.empty() || !request.elastic.discovery_script.empty() ||
                        (placement.oversubscribe && placement.np > 0);
  if (is_fixed) return false;
  int slots = 0;
  bool is_open = false;
  for (const model::HostSpec& host : placement.hosts) {
    is_open = is_open || !host.slots;
    slots += host.slots.value_or(1);
  }
  return is_open && (placement.np == 0 || placement.np > slots);
}

// Sets slots to the number of GPUs. Returns lines about the hosts that cannot be asked, which keep their one slot.
std::vector<std::string> count_gpu_slots(const model::JobSpec& job, const base::Environment& environment,
                                         const ProbeShapes& probe, std::vector<model::HostSpec>& hosts) {
  std::vector<std::string> notes;
  std::vector<model::HostSpec*> open;
  std::vector<model::HostSpec> asked;
  std::map<std::string, int> entries;  // by name
  for (const model::HostSpec& host : hosts) ++entries[host.name];
  for (model::HostSpec& host : hosts) {
    if (host.slots || entries[host.name] > 1) continue;
    open.push_back(&host);
    asked.push_back(host);
  }
  if (asked.empty()) return notes;
  const auto shapes = probe(asked);
  if (shapes.size() != asked.size()) {  // no host could be asked
    for (const auto& shape : shapes) {
      if (!shape.ok())
        notes.push_back(fmt::format("{}; hosts without slots count as one slot", shape.status().message()));
    }
    return notes;
  }
  std::vector<model::HostText> unknown;
  for (std::size_t i = 0; i < open.size(); ++i) {
    if (!shapes[i].ok()) {
      unknown.push_back({asked[i].name, fmt::format("{}; {} counts as one slot, because its GPUs are unknown",
                                                    shapes[i].status().message(), asked[i].name)});
      continue;
    }
    // If the host's GPUs cannot be bound as the job requests, keep one slot. The launch later reports the error.
    const base::Result<int> count = count_gpus(*shapes[i], job, environment, asked[i]);
    if (count.ok() && *count > 0) open[i]->slots = *count;
  }
  constexpr std::size_t kMostNotes = 10;
  return model::group_host_texts(unknown, kMostNotes);
}

// Refuses spares that have ranks already, because they could never take over.
base::Status check_spares(const model::FailurePolicy& policy, const model::Placement& placement) {
  for (const model::HostSpec& spare : policy.spares) {
    const bool has_ranks = std::ranges::any_of(placement.hosts, [&](const model::PlacedHost& placed) {
      return base::lower(placed.host.name) == base::lower(spare.name);
    });
    if (has_ranks) return base::invalid_argument("--spares: {} has ranks already; name another host", spare.name);
  }
  return base::ok_status();
}

// Refuses a --min-hosts that the job could never reach.
base::Status check_min_hosts(const model::JobSpec& job) {
  std::set<std::string> known;
  for (const std::vector<model::HostSpec>* list : {&job.placement.hosts, &job.failure.spares}) {
    for (const model::HostSpec& host : *list) known.insert(base::lower(host.name));
  }
  const std::size_t count = std::max<std::size_t>(known.size(), 1);  // an empty list means this host
  if (static_cast<std::size_t>(job.min_hosts) <= count) return base::ok_status();
  return base::invalid_argument("--min-hosts {}: the job has only {} host{}; name more, or lower --min-hosts",
                                job.min_hosts, count, count == 1 ? "" : "s");
}

// Applies --min-np and --max-np to the placement at the start. A job whose ranks change needs -np slots to start, and
// uses all that there are, as in horovodrun.
base::Status fit_elastic(const ElasticOptions& elastic, const model::JobSpec& job, model::Placement& placement) {
  const int np = job.placement.np;
  model::PlacementRequest fitted = job.placement;
  if (job.live && np > 0 && !job.placement.hosts.empty()) {
    fitted.np = 0;
    MUSTER_ASSIGN_OR_RETURN(model::Placement all, model::place(fitted));
    if (all.size > placement.size) placement = std::move(all);  // fewer with --oversubscribe
  }
  if (elastic.max_ranks && fitted.np == 0 && placement.size > *elastic.max_ranks) {
    fitted.np = static_cast<int>(*elastic.max_ranks);
    MUSTER_ASSIGN_OR_RETURN(placement, model::place(fitted));
  }
  if (elastic.min_ranks && placement.size < *elastic.min_ranks) {
    return base::invalid_argument("--min-np needs {} ranks, but the job has {}: name more hosts or slots",
                                  *elastic.min_ranks, placement.size);
  }
  return base::ok_status();
}

// Makes up as many hosts as the requested ranks need; one host if no number of ranks was requested.
std::vector<model::HostSpec> made_up_hosts(const model::JobSpec& job, const DryRunOptions& dry_run,
                                           const base::Environment& environment) {
  const model::PlacementRequest& request = job.placement;
  const auto& node = dry_run.assumed_node;
  const base::Result<int> counted =
      node ? count_gpus(*node, job, environment, {.name = "made-up"}) : base::Result<int>(0);
  const int gpus = counted.ok() ? *counted : 0;
  const int on_each = request.ranks_per_node > 0 ? request.ranks_per_node : std::max(gpus, 1);
  const int needed = request.np > 0 ? (request.np - 1) / on_each + 1 : 1;
  const int count = dry_run.host_count.value_or(needed);
  std::vector<model::HostSpec> hosts;
  for (std::string& name : job_templates::made_up_names({.names = *dry_run.host_pattern}, count)) {
    model::HostSpec& host = hosts.emplace_back();
    host.name = std::move(name);
    if (request.ranks_per_node == 0) host.slots = on_each;
  }
  return hosts;
}

// Fills the list from the first source that names hosts.
base::Result<HostSource> list_hosts(JobRequest& request, const base::Environment& environment,
                                    const std::string& directory) {
  std::vector<model::HostSpec>& hosts = request.job.placement.hosts;
  if (!request.hostfile.empty()) {
    MUSTER_ASSIGN_OR_RETURN(hosts, launcherd::read_hostfile(absolute_path(request.hostfile, directory)));
    return HostSource{.may_be_counted = true};
  }
  if (!request.elastic.discovery_script.empty()) {
    if (request.elastic.discovered) {
      hosts = *request.elastic.discovered;
    } else {
      // Hold signals, because the script runs in a session of its own: Ctrl-C would end only this process.
      MUSTER_ASSIGN_OR_RETURN(const HeldSignals signals, HeldSignals::open());
      MUSTER_ASSIGN_OR_RETURN(
          hosts, run_discovery(request.elastic, signals.fd(), std::chrono::steady_clock::now() + kDiscoveryLimit));
    }
    return HostSource{.note = fmt::format("hosts from {}", request.elastic.discovery_script)};
  }
  if (!hosts.empty()) return HostSource{.may_be_counted = true};
  MUSTER_ASSIGN_OR_RETURN(auto allocation, launcherd::find_allocation(environment, ask_scheduler));
  if (!allocation) return HostSource{.is_missing = true};
  hosts = std::move(allocation->hosts);
  return HostSource{
      fmt::format("hosts from the {} allocation ({}); -H names others", allocation->scheduler, allocation->source),
      allocation->has_uncounted};
}

// Checks, before any host is asked, that the files to stage can be read.
base::Status check_stages(const model::JobSpec& job) {
  for (const model::StagedPath& staged : job.stages) {
    if (::access(staged.source.c_str(), R_OK) == 0) continue;
    const int problem = errno;
    return base::invalid_argument("--stage {}: {}", base::printable(staged.source),
                                  base::errno_error(problem, "it cannot be read").message());
  }
  return base::ok_status();
}

}  // namespace

base::Result<std::string> ask_scheduler(const std::vector<std::string>& argv) {
  return ask_scheduler_within(kDiscoveryLimit, argv);
}

base::Result<std::string> ask_scheduler_within(std::chrono::seconds limit, const std::vector<std::string>& argv) {
  MUSTER_ASSIGN_OR_RETURN(const HeldSignals signals, HeldSignals::open());
  const launcherd::Waiter waiter{.cancel_fd = signals.fd(), .deadline = std::chrono::steady_clock::now() + limit};
  MUSTER_ASSIGN_OR_RETURN(launcherd::ProgramResult answer, launcherd::ask_program(base::join(argv, " "), argv, waiter));
  return std::move(answer.output);
}

base::Result<HostSource> find_hosts(JobRequest& request, const base::Environment& environment,
                                    const std::string& directory, const MakeUpHosts& make_up) {
  std::vector<model::HostSpec>& hosts = request.job.placement.hosts;
  MUSTER_ASSIGN_OR_RETURN(HostSource source, list_hosts(request, environment, directory));
  if (source.is_missing && make_up) {
    hosts = make_up();
    source = {.may_be_counted = true};
  }
  if (request.host_numbers) {
    MUSTER_ASSIGN_OR_RETURN(hosts, pick_hosts(*request.host_numbers, hosts));
  }
  return source;
}

void set_default_slots(const Reach& reach, const HostSource& source, std::vector<model::HostSpec>& hosts) {
  if (source.may_be_counted && may_use_ssh(reach)) return;
  for (model::HostSpec& host : hosts) host.slots = host.slots.value_or(1);
}

base::Status leave_out_hosts(JobRequest& request, std::vector<std::string>& notes, const CheckHosts& check) {
  if (request.health_check == HealthCheck::kOff) return base::ok_status();
  std::vector<model::HostSpec>& hosts = request.job.placement.hosts;
  if (hosts.empty() && std::ranges::any_of(request.job.roles, [](const auto& role) { return !role.hosts.empty(); })) {
    return base::invalid_argument(
        "--spares and --health-check choose among the hosts of all programs: name those by --hostfile");
  }
  std::vector<HostHealth> health;
  if (check) {
    MUSTER_ASSIGN_OR_RETURN(health, check(hosts));
  }
  if (hosts.empty()) hosts.push_back({.name = "localhost"});
  MUSTER_ASSIGN_OR_RETURN(HostChoice choice, leave_spares_out(request.spares, health, hosts));
  hosts = std::move(choice.hosts);
  if (model::may_change_hosts(request.job.failure) || request.job.min_hosts > 0) {
    request.job.failure.spares = std::move(choice.spares);
  }
  notes.insert(notes.end(), choice.notes.begin(), choice.notes.end());
  return base::ok_status();
}

void settle_directories(model::JobSpec& job, const std::string& directory) {
  job.workdir = job.workdir.empty() ? directory : absolute_path(job.workdir, directory);
  for (model::Role& role : job.roles) {
    if (!role.workdir.empty()) role.workdir = absolute_path(role.workdir, directory);
  }
  for (model::StagedPath& staged : job.stages) {
    staged.source = absolute_path(staged.source, directory);
    staged.destination = staged.destination.empty() ? staged.source : absolute_path(staged.destination, job.workdir);
  }
}

int placement_exit_code(const base::Status& failure) {
  constexpr base::Code kWorld[] = {base::Code::kUnavailable, base::Code::kDeadlineExceeded, base::Code::kCancelled};
  return std::ranges::find(kWorld, failure.code()) == std::end(kWorld) ? model::kUsageError : model::kMusterFailed;
}

base::Result<PlacedJob> place_job(HvdrunOptions& options, const base::Environment& environment,
                                  const std::string& directory, const ProbeShapes& probe, const CheckHosts& check) {
  JobRequest& request = options.request;
  model::JobSpec& job = request.job;
  std::vector<std::string>& notes = options.output.notes;
  settle_directories(job, directory);
  MUSTER_RETURN_IF_ERROR(settle_stage_env(job, environment, directory));
  MUSTER_RETURN_IF_ERROR(read_env_files(request, directory));
  MUSTER_RETURN_IF_ERROR(check_stages(job));
  MUSTER_RETURN_IF_ERROR(check_stage_env(job));
  job.umask = current_umask();
  MakeUpHosts make_up;
  if (options.dry_run.host_pattern) {
    make_up = [&] {
      notes.push_back(fmt::format("the names of the hosts are made up{}; -H names real ones",
                                  options.dry_run.host_pattern->empty() ? "" : " in the site's manner"));
      return made_up_hosts(job, options.dry_run, environment);
    };
  }
  PlacedJob placed;
  MUSTER_ASSIGN_OR_RETURN(HostSource source, find_hosts(request, environment, directory, make_up));
  placed.hosts_note = std::move(source.note);
  MUSTER_RETURN_IF_ERROR(leave_out_hosts(request, notes, check));
  if (request.nodes) MUSTER_RETURN_IF_ERROR(limit_hosts(*request.nodes, job.failure, job.placement.hosts, notes));
  if (request.devices) {
    MUSTER_RETURN_IF_ERROR(count_slots(*request.devices, job, environment, probe, job.placement.hosts));
  }
  std::vector<std::string> not_counted;
  if (probe && source.may_be_counted && counts_gpus(request, options.reach)) {
    not_counted = count_gpu_slots(job, environment, probe, job.placement.hosts);
    notes.insert(notes.end(), not_counted.begin(), not_counted.end());
  }
  MUSTER_RETURN_IF_ERROR(settle_dmlc(request, false));
  auto placement = model::place(job);
  if (!placement.ok() && !not_counted.empty()) {  // the hosts that were not counted may be the reason
    return placement.status().with_context(base::join(not_counted, "; "));
  }
  MUSTER_ASSIGN_OR_RETURN(placed.placement, std::move(placement));
  MUSTER_RETURN_IF_ERROR(check_spares(job.failure, placed.placement));
  MUSTER_RETURN_IF_ERROR(check_min_hosts(job));
  MUSTER_RETURN_IF_ERROR(fit_elastic(request.elastic, job, placed.placement));
  MUSTER_RETURN_IF_ERROR(model::check_input(job.input, placed.placement.size));
  return placed;
}

}  // namespace muster::cli::hosts
