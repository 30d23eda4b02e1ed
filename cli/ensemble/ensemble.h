// `muster ensemble FILE`: many jobs over one allocation, on agents that stay between them.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"

namespace muster::cli::inline ensemble {

struct ParsedEnsemble : HostVerbLine {
  std::string file;
  std::string output;  // --output; empty: as the file says
  bool stops_at_failure = false;
  bool json = false;
  bool dry_run = false;
};

// Reads no file but the configuration.
ParsedEnsemble parse_ensemble_line(const std::vector<std::string>& arguments, const base::Environment& environment,
                                   const ParseContext& context);

int run_ensemble(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& ensemble_doc();

}  // namespace muster::cli::ensemble
