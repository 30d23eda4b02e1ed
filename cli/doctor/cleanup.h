// `muster cleanup`: finds and ends the strays of dead jobs on hosts.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline doctor {

struct ParsedCleanup : HostVerbLine {
  std::string job;  // a job id or its beginning; empty means all jobs
  bool dry_run = false;
  bool json = false;
};

// Reads no file except the configuration.
ParsedCleanup parse_cleanup(const std::vector<std::string>& arguments, const base::Environment& environment,
                            const ParseContext& context);

const FlagTable& cleanup_flags();
const CommandDoc& cleanup_doc();

}  // namespace muster::cli::doctor
