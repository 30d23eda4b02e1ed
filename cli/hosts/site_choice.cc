#include "cli/hosts/site_choice.h"

#include <unistd.h>

#include "base/strings.h"
#include "cli/hosts/job_hosts.h"
#include "launcherd/site/site_command.h"

namespace muster::cli::inline hosts {
namespace {

using launcherd::BootstrapBy;

bool is_on_path(const base::Environment& environment, const std::string& program) {
  const std::string path(environment.get("PATH").value_or(""));
  for (const std::string_view folder : base::split(path, ':')) {
    if (!folder.empty() && ::access(fmt::format("{}/{}", folder, program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

}  // namespace

SiteChoice choose_site_launcher(const base::Environment& environment,
                                const std::optional<launcherd::Allocation>& allocation,
                                const std::function<bool(const std::string& name)>& has_program) {
  if (!allocation) return {};
  if (allocation->scheduler == "Slurm" && environment.get("SLURM_JOB_ID")) {
    if (has_program("srun")) {
      return {BootstrapBy::kSrun, "srun starts the agents on the allocation's hosts; --bootstrap ssh uses ssh instead"};
    }
    return {BootstrapBy::kSsh, "ssh starts the agents: this is a Slurm job, but srun is not on the PATH"};
  }
  const bool is_alps = allocation->scheduler == "Cobalt" && allocation->source.starts_with("COBALT_PARTNAME");
  if (is_alps && has_program("aprun")) {
    return {BootstrapBy::kAprun, "aprun starts the agents on the allocation's hosts; --bootstrap ssh uses ssh instead"};
  }
  return {};
}

base::Result<std::string> settle_bootstrap(launcherd::BootstrapOptions& bootstrap,
                                           const base::Environment& environment) {
  bootstrap.pbs_job = environment.get("PBS_JOBID").value_or("");
  if (bootstrap.by == BootstrapBy::kSsh || bootstrap.by == BootstrapBy::kManual) return std::string();
  if (bootstrap.by == BootstrapBy::kCommand) {
    MUSTER_RETURN_IF_ERROR(launcherd::split_words(bootstrap.command).status());
    return std::string();
  }
  auto found = launcherd::find_allocation(environment, ask_scheduler);
  const bool is_auto = bootstrap.by == BootstrapBy::kAuto;
  if (!found.ok() && !is_auto) return found.status();
  // Don't fail if the allocation is unknown: a variable of an ended job must not block hosts that are named otherwise.
  const std::string problem = found.ok() ? "" : found.status().message();
  const auto allocation = found.ok() ? *std::move(found) : std::nullopt;
  bootstrap.allocation.clear();
  if (allocation) {
    for (const model::HostSpec& host : allocation->hosts) bootstrap.allocation.push_back(host.name);
  }
  if (!is_auto) return std::string();
  if (!problem.empty()) {
    bootstrap.by = BootstrapBy::kSsh;
    return "ssh starts the agents, because the allocation is unknown: " + problem;
  }
  const SiteChoice choice = choose_site_launcher(
      environment, allocation, [&](const std::string& program) { return is_on_path(environment, program); });
  bootstrap.by = choice.by;
  bootstrap.only_allocation = true;
  return choice.why;
}

}  // namespace muster::cli::hosts
