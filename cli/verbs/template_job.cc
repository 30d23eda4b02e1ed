#include "cli/verbs/template_job.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/verbs/verb.h"

namespace muster::cli::inline verbs {
namespace {

std::optional<int> nodes_of(const job_templates::Values& values) {
  const auto count = base::parse_decimal(values.get("nodes").value_or(""), model::kMaxHosts);
  return count && *count > 0 ? std::optional(static_cast<int>(*count)) : std::nullopt;
}

}  // namespace

void take_demand(const job_templates::Values& values, JobRequest& request) {
  model::PlacementRequest& placement = request.job.placement;
  const bool names_hosts = !placement.hosts.empty() || !request.hostfile.empty();
  if (const auto nodes = nodes_of(values); nodes && placement.np == 0 && !names_hosts) {
    placement.np = std::min(*nodes * std::max(placement.ranks_per_node, 1), model::kMaxRanks);
  }
  const auto time = job_templates::parse_walltime(values.get("time").value_or(""));
  if (time.ok() && !request.job.timeout) request.job.timeout = *time;
}

ParsedHvdrun parse_template_dry_run(const TemplateLine& line, const base::Environment& environment,
                                    const ParseContext& context) {
  const job_templates::Template& job_template = *line.job_template;
  std::vector<std::string> words = {"--dry-run"};
  if (line.own.find("json") != nullptr) words.emplace_back("--json");
  if (job_template.node.is_known()) words.insert(words.end(), {"--assume-node", line.own.find("template")->value});
  const auto job = hvdrun_words(line);
  if (!job.ok()) return answer(kUsageError, fmt::format("muster submit: {}\n", job.status().message()));
  words.insert(words.end(), job->begin(), job->end());
  ParsedHvdrun parsed = parse_hvdrun(words, environment, context);
  if (parsed.exit_code) return parsed;
  DryRunOptions& dry_run = parsed.options.dry_run;
  // Make up no hosts if there is no scheduler: the job then runs on launcherd's hosts, or on this one.
  if (job_template.scheduler != job_templates::Scheduler::kNone && !dry_run.host_pattern) dry_run.host_pattern = "";
  if (dry_run.host_pattern) dry_run.host_count = nodes_of(line.values);
  return parsed;
}

}  // namespace muster::cli::verbs
