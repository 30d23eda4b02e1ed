// Chooses what starts the agents on the hosts: the user's choice, or what suits the scheduler's allocation around this
// process. Reads the allocation's node file and searches the PATH for programs.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/hosts/allocation.h"

namespace muster::cli::inline hosts {

struct SiteChoice {
  launcherd::BootstrapBy by = launcherd::BootstrapBy::kSsh;
  std::string why;  // one line for --verbose; empty if there is nothing to report
};

// Returns the choice for --bootstrap auto. Pure, except for `has_program`.
SiteChoice choose_site_launcher(const base::Environment& environment,
                                const std::optional<launcherd::Allocation>& allocation,
                                const std::function<bool(const std::string& name)>& has_program);

// Completes `bootstrap`. Returns a line for --verbose; empty if there is nothing to report. The error is a mistake of
// the command line.
base::Result<std::string> settle_bootstrap(launcherd::BootstrapOptions& bootstrap,
                                           const base::Environment& environment);

}  // namespace muster::cli::hosts
