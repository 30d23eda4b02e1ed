// Runs `muster cleanup` from its command line to its exit code.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline doctor {

int run_cleanup(const std::vector<std::string>& arguments);

}  // namespace muster::cli::doctor
