// A template's job without its script: as launcherd gets it, and as a dry run shows it.
#pragma once

#include "base/env.h"
#include "cli/options/options.h"
#include "cli/options/template_line.h"

namespace muster::cli::inline verbs {

// What the script would ask of a scheduler by directives, its parameters nodes and time, becomes the job's number of
// ranks and its time limit, unless the line says those itself (-np or hosts, --timeout).
void take_demand(const job_templates::Values& values, HvdrunOptions& options);

// The line as one of `hvdrun --dry-run` that asks no host: without hosts of its own on made-up ones, as many as nodes
// says. Of hosts that the template does not describe, processors and GPUs are unknown.
ParsedHvdrun parse_template_dry_run(const TemplateLine& line, const base::Environment& environment,
                                    const ParseContext& context);

}  // namespace muster::cli::verbs
