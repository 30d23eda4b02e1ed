// `hvdrun --launcher`: the job is launcherd's, its output, its end and its signals are here as in the foreground.
#pragma once

#include "base/env.h"
#include "cli/options/options.h"

namespace muster::cli::inline run {

// The exit code.
int run_remote(HvdrunOptions options, const base::Environment& environment);

}  // namespace muster::cli::run
