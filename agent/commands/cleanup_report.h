// `muster-agent --cleanup [--job J] [--dry-run] [--session-root DIR]`: runs agent/strays/cleanup.h and reports the
// result to a launcher.
// J is a whole job id; with --dry-run a prefix is enough.
//
// Output: the marker line, then a frame (proto/frame.h) with a v1::CleanupReport, on stdout. Together they are shorter
// than kMaxCommandOutput (launcherd/bootstrap/bootstrap.h), because a bootstrap drops longer output.
#pragma once

#include <string>
#include <vector>

#include "agent/strays/cleanup.h"
#include "base/status.h"
#include "proto/muster/v1/cleanup.pb.h"

namespace muster::agent::inline commands {

// INVALID_ARGUMENT: the options are unknown or malformed.
base::Result<CleanupOptions> parse_cleanup(const std::vector<std::string>& arguments);

// Converts the report and cuts it to what fits. `left_out` counts the rest. Pure.
v1::CleanupReport to_message(const CleanupReport& report);

base::Status report_cleanup(const std::vector<std::string>& arguments);

}  // namespace muster::agent::commands
