// Runs `muster doctor` from its command line to its exit code.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline doctor {

int run_doctor(const std::vector<std::string>& arguments);

}  // namespace muster::cli::doctor
