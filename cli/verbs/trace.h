// `muster trace`: prints a job as a trace that Perfetto opens, made from its events.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const CommandDoc& trace_doc();

// Returns the exit code: 0, 1 if the launcher did not answer, 2 for a mistake in the command line or an unknown job.
int run_trace(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
