// Tells how a command that starts agents reaches hosts, and where the bootstrap's messages go.
#pragma once

#include <string>

#include "cli/options/reach.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/terminal.h"

namespace muster::cli::inline view {

// Returns `reach.bootstrap` with this build's agent. `notices` gets the bootstrap's notes if `verbose`, and always what
// agents write to stderr. `notices` is borrowed and must outlive the bootstrap.
launcherd::BootstrapOptions bootstrap_options(const Reach& reach, std::string agent_path,
                                              launcherd::NoticeWriter& notices, bool verbose);

}  // namespace muster::cli::view
