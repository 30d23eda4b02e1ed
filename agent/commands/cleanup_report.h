// `muster-agent --cleanup [--job J] [--dry-run] [--session-root DIR]`: what agent/strays/cleanup.h does, told to a
// launcher. Writes the marker line and then a frame (proto/frame.h) with a v1::CleanupReport to stdout; both together
// are shorter than what a bootstrap keeps of a command's output. J is a whole job id; with --dry-run its beginning is
// enough.
#pragma once

#include <string>
#include <vector>

#include "agent/strays/cleanup.h"
#include "base/status.h"
#include "proto/muster/v1/cleanup.pb.h"

namespace muster::agent::inline commands {

// INVALID_ARGUMENT: no such options.
base::Result<CleanupOptions> parse_cleanup(const std::vector<std::string>& arguments);

// Cut to what fits; `left_out` counts the rest. Pure.
v1::CleanupReport to_message(const CleanupReport& report);

base::Status report_cleanup(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
