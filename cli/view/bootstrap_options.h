// How a command that starts agents reaches hosts, and where what the bootstrap tells goes.
#pragma once

#include <string>

#include "cli/options/options.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/terminal.h"

namespace muster::cli::inline view {

// `options.bootstrap` with this build's agent: notes go to `notices` with --verbose, what agents write to stderr
// always. `notices` is borrowed, for as long as the bootstrap lives.
launcherd::BootstrapOptions bootstrap_options(const HvdrunOptions& options, std::string agent_path,
                                              launcherd::NoticeWriter& notices);

}  // namespace muster::cli::view
