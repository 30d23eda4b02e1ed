// Runs `muster doctor` from its words to its exit code.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline doctor {

int run_doctor(const std::vector<std::string>& arguments);

}  // namespace muster::cli::doctor
