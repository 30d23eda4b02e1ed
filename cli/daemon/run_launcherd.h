// Runs launcherd from its command line to its end.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline daemon {

// Returns the exit code.
int run_launcherd(const std::vector<std::string>& arguments);

}  // namespace muster::cli::daemon
