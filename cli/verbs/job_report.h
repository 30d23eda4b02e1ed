// `muster report`: writes a page about jobs: time lines of their phases and ranks, and how they scale. Or writes what
// launcherd keeps of them for TensorBoard.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

const CommandDoc& job_report_doc();

// Returns the exit code: 0, 1 if a launcher did not answer, 2 for a mistake in the command line or an unknown job.
int run_job_report(const std::string& verb, const std::vector<std::string>& arguments);

}  // namespace muster::cli::verbs
