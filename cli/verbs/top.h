// `muster top`: launcherd's hosts and all jobs, again and again.
#pragma once

#include <string>
#include <vector>

#include "cli/help/command_doc.h"

namespace muster::cli::inline verbs {

// The exit code.
int run_top(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& top_doc();

}  // namespace muster::cli::verbs
