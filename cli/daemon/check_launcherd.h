// launcherd --check: prints the options and where each comes from, what launcherd would do, and what is wrong.
#pragma once

#include "base/env.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/hosts/console.h"

namespace muster::cli::inline daemon {

// Returns 0, or 2 if something is wrong.
int check_launcherd(const ParsedLauncherd& parsed, const base::Environment& environment, const Console& console);

}  // namespace muster::cli::daemon
