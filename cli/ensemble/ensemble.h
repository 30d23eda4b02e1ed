// `muster ensemble FILE`: runs many jobs over one allocation. The agents stay up between the jobs.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"

namespace muster::cli::inline ensemble {

struct ParsedEnsemble : HostVerbLine {
  std::string file;
  std::string output;  // --output; empty means the folder that the file names
  bool stops_at_failure = false;
  bool json = false;
  bool dry_run = false;
};

// Reads no file except the configuration.
ParsedEnsemble parse_ensemble_line(const std::vector<std::string>& arguments, const base::Environment& environment,
                                   const ParseContext& context);

int run_ensemble(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& ensemble_doc();

}  // namespace muster::cli::ensemble
