// Makes a template's job without its script: for launcherd, and for a dry run.
#pragma once

#include "base/env.h"
#include "cli/options/options.h"
#include "cli/options/template_line.h"

namespace muster::cli::inline verbs {

// Turns the parameters `nodes` and `time` into the job's number of ranks and its time limit. A script would request
// them from a scheduler by directives. The line's own options win (-np or hosts, --timeout).
void take_demand(const job_templates::Values& values, JobRequest& request);

// Reads the line as a line of `hvdrun --dry-run` that asks no host. Without hosts on the line it makes up as many hosts
// as the parameter `nodes` says. If the template does not describe the hosts, their processors and GPUs are unknown.
ParsedHvdrun parse_template_dry_run(const TemplateLine& line, const base::Environment& environment,
                                    const ParseContext& context);

}  // namespace muster::cli::verbs
