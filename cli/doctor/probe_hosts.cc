#include "cli/doctor/probe_hosts.h"

#include <algorithm>
#include <tuple>

#include "cli/doctor/doctor_report.h"
#include "cli/doctor/host_query.h"
#include "launcherd/doctor/host_probes.h"
#include "proto/convert.h"

namespace muster::cli::inline doctor {
namespace {

using Findings = std::vector<launcherd::HostFindings>;

}  // namespace

base::Result<Findings> probe_hosts(const model::JobSpec& job, const Reach& reach,
                                   const std::vector<model::HostSpec>& hosts, const base::Environment& environment,
                                   const ProbeStyle& style) {
  HostQuery query(style.program, style.verbose);
  std::unique_ptr<launcherd::HostProbes> probes;
  MUSTER_ASSIGN_OR_RETURN(
      const std::unique_ptr<launcherd::Bootstrap> bootstrap,
      query.make_bootstrap(reach, environment,
                           [&probes](const launcherd::BootstrapTarget& target, launcherd::FailureKind kind) {
                             probes->failed(target, kind);
                           }));
  Findings found;
  launcherd::ProbePlan plan{.hosts = hosts,
                            .job = job,
                            .agent_link = reach.agent_link,
                            .contain = reach.contain,
                            .environment = environment,
                            .shape_only = style.shape_only};
  launcherd::ProbeEvents events;
  events.on_progress = [&notices = query.notices, total = hosts.size()](const std::vector<std::string>& waiting) {
    notices.status(format_waiting(total, waiting));
  };
  events.on_done = [&found, &loop = query.loop](Findings findings) {
    found = std::move(findings);
    loop.stop();
  };
  probes = std::make_unique<launcherd::HostProbes>(query.loop, bootstrap.get(), std::move(plan), std::move(events));
  MUSTER_RETURN_IF_ERROR(probes->start());
  query.run_blocking();
  return found;
}

std::vector<model::HostSpec> distinct_hosts(const std::vector<model::HostSpec>& hosts) {
  std::vector<model::HostSpec> distinct;
  for (const model::HostSpec& host : hosts) {
    const auto is_same = [&](const model::HostSpec& other) {
      return std::tie(host.name, host.user, host.port) == std::tie(other.name, other.user, other.port);
    };
    if (std::ranges::none_of(distinct, is_same)) distinct.push_back(host);
  }
  if (distinct.empty()) distinct.push_back({.name = "localhost"});
  return distinct;
}

std::vector<base::Result<model::NodeShape>> probe_shapes(const model::JobSpec& job, const Reach& reach,
                                                         const std::vector<model::HostSpec>& hosts,
                                                         const base::Environment& environment, bool verbose) {
  const auto findings =
      probe_hosts(job, reach, hosts, environment, {.program = "hvdrun", .verbose = verbose, .shape_only = true});
  std::vector<base::Result<model::NodeShape>> shapes;
  if (!findings.ok()) return {findings.status()};
  for (const launcherd::HostFindings& each : *findings) {
    if (!each.status.ok()) {
      shapes.push_back(each.status);
    } else if (!each.facts) {
      shapes.push_back(base::unavailable("host {}: its agent did not send the facts of the host", each.host.name));
    } else {
      shapes.push_back(proto::node_shape_of(each.facts->hello()));
    }
  }
  return shapes;
}

}  // namespace muster::cli::doctor
