// Runs `muster agents`.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline doctor {

int run_agents(const std::vector<std::string>& arguments);

}  // namespace muster::cli::doctor
