// By what agents get to the hosts: what the user says, or what the scheduler's allocation around us suggests. Reads the
// allocation's node file and looks for programs on the PATH.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "base/env.h"
#include "base/status.h"
#include "cli/options/options.h"
#include "launcherd/hosts/allocation.h"

namespace muster::cli::inline hosts {

struct SiteChoice {
  launcherd::BootstrapBy by = launcherd::BootstrapBy::kSsh;
  std::string why;  // one line for --verbose; empty: nothing to tell
};

// For --bootstrap auto. Pure but for `has_program`.
SiteChoice choose_site_launcher(const base::Environment& environment,
                                const std::optional<launcherd::Allocation>& allocation,
                                const std::function<bool(const std::string& name)>& has_program);

// Fills what options.bootstrap says of it. Returns a line for --verbose; empty: nothing to tell. The error is a mistake
// of the command line.
base::Result<std::string> settle_bootstrap(HvdrunOptions& options, const base::Environment& environment);

}  // namespace muster::cli::hosts
