// Runs a job in the foreground, from its options to its exit code: what hvdrun and `muster torchrun` share. The
// launcher lives inside this process; here it is only wired together.
#pragma once

#include <functional>

#include "base/env.h"
#include "cli/options/options.h"

namespace muster::cli::inline run {

// From the main thread, with no other thread running. Returns the exit code of the program (CONTRACT: Exit).
int run_job(HvdrunOptions options, const base::Environment& environment);

// Prints the answer of a command line that is one, runs the job of any other. `main` of a launcher is this.
int run_command(const std::function<ParsedHvdrun(const base::Environment&)>& parse);

}  // namespace muster::cli::run
