// `muster top`: shows launcherd's hosts and all jobs, and refreshes them.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline top {

// Returns the exit code.
int run_top(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& top_doc();

}  // namespace muster::cli::top
