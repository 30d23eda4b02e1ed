#include "cli/run/host_health.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/doctor/probe_hosts.h"
#include "launcherd/doctor/judge.h"

namespace muster::cli::inline run {
namespace {

using launcherd::HostFindings;

// True if the check matters for a job. Checks of Python programs, and differences between hosts, are for `muster
// doctor`.
bool concerns_job(const model::Check& check) {
  if (check.name == "python" || check.name == "torch") return false;
  return check.state == model::CheckState::kFail || (check.name == "clock" && check.state != model::CheckState::kOk);
}

// Returns the most frequent number of GPUs. If several numbers are equally frequent, it returns the largest.
int usual_gpus(const std::vector<HostFindings>& findings) {
  std::map<int, int> hosts_with;
  for (const HostFindings& each : findings) {
    if (each.facts) ++hosts_with[each.facts->hello().gpus_size()];
  }
  int usual = 0;
  int most = 0;
  for (const auto& [gpus, hosts] : hosts_with) {
    if (hosts < most) continue;
    usual = gpus;
    most = hosts;
  }
  return usual;
}

bool has_gpu_problem(const HostFindings& findings) {
  return findings.facts && !findings.facts->hello().gpu_problem().empty();
}

// Returns true if the host reports no GPU problem. False if it has not answered, because it may have one.
bool is_without_gpu_problem(const HostFindings& findings) {
  return findings.status.ok() && findings.facts && findings.facts->hello().gpu_problem().empty();
}

}  // namespace

std::vector<HostHealth> health_of(const std::vector<HostFindings>& findings, const std::string& agent_link,
                                  bool uses_gpus) {
  const int gpus = usual_gpus(findings);
  // If all hosts have a GPU problem, no host is better. So ignore the problem here; the start of the job reports it.
  const bool is_problem_rare = uses_gpus && std::ranges::any_of(findings, is_without_gpu_problem);
  std::vector<HostHealth> health;
  for (const HostFindings& each : findings) {
    HostHealth& entry = health.emplace_back(HostHealth{each.host.name, ""});
    const model::HostDiagnosis diagnosis = launcherd::judge_host(each, agent_link);
    const auto bad = std::ranges::find_if(diagnosis.checks, concerns_job);
    if (bad != diagnosis.checks.end()) {
      entry.problem = fmt::format("{}: {}", bad->name, bad->seen);
    } else if (!each.status.ok()) {
      entry.problem = base::printable(each.status.message());
    } else if (each.facts && each.facts->hello().gpus_size() < gpus) {
      entry.problem = fmt::format("gpus: {}, but most hosts have {}", each.facts->hello().gpus_size(), gpus);
    } else if (is_problem_rare && has_gpu_problem(each)) {
      entry.problem = fmt::format("gpus: {}", base::printable(each.facts->hello().gpu_problem()));
    }
  }
  return health;
}

base::Result<std::vector<HostHealth>> check_health(const model::JobSpec& job, const Reach& reach,
                                                   const std::vector<model::HostSpec>& hosts,
                                                   const base::Environment& environment, bool verbose) {
  MUSTER_ASSIGN_OR_RETURN(const auto findings, probe_hosts(job, reach, distinct_hosts(hosts), environment,
                                                           {.program = "hvdrun", .verbose = verbose}));
  return health_of(findings, reach.agent_link, job.pinning.gpu_bind != model::GpuBind::kNone);
}

}  // namespace muster::cli::run
