// The common part of the mains of hvdrun, launcherd and `muster VERB`.
#pragma once

#include <functional>
#include <string_view>

#include "base/env.h"

namespace muster::cli::inline hosts {

// Calls `body` with this process's environment and returns its exit code. If a constructor on this thread cannot start
// a thread, reports that and returns 125. `program` stands before the message.
int run_program(std::string_view program, const std::function<int(const base::Environment&)>& body);

// Prints the answer of a command line that runs nothing and returns the exit code. With 0 the text goes to stdout, and
// a failure to write there is reported. Otherwise it goes to stderr.
int print_reply(std::string_view program, int exit_code, std::string_view text);

}  // namespace muster::cli::hosts
