// Runs `muster cleanup` from its words to its exit code.
#pragma once

#include <string>
#include <vector>

namespace muster::cli {

int run_cleanup(const std::vector<std::string>& arguments);

}  // namespace muster::cli
