// The common part of the mains of hvdrun, launcherd and `muster VERB`.
#pragma once

#include <functional>
#include <string_view>

#include "base/env.h"

namespace muster::cli::inline hosts {

// Calls `body` with this process's environment and returns its exit code. If a constructor on this thread cannot start
// a thread, reports that and returns 125. `program` stands before the message.
int run_program(std::string_view program, const std::function<int(const base::Environment&)>& body);

}  // namespace muster::cli::hosts
