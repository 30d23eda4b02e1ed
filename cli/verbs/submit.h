// `muster submit`: a job for launcherd, with hvdrun's options on what runs and where.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/env.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline verbs {

struct ParsedSubmit {
  // Set: the command line is answered by `text` alone; help on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;
  HvdrunOptions options;
  v1::SubmitRequest wishes;  // of submit's own options; what options say, is added later
  Settings own;              // --launcher and its certificates
};

// Reads no file but the configuration.
ParsedSubmit parse_submit(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context, base::WallTime now);

// The exit code; prints the job's id.
int run_submit(const std::string& verb, const std::vector<std::string>& arguments);

const CommandDoc& submit_doc();

}  // namespace muster::cli::verbs
