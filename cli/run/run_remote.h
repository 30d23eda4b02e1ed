// `hvdrun --launcher`: launcherd runs the job. This process handles the job's output, its end and its signals, as in
// the foreground.
#pragma once

#include "base/env.h"
#include "cli/options/options.h"

namespace muster::cli::inline run {

// Returns the exit code.
int run_remote(HvdrunOptions options, const base::Environment& environment);

}  // namespace muster::cli::run
