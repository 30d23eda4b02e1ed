// `muster cleanup`: finds and ends what dead jobs have left on hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/command_doc.h"
#include "cli/options.h"

namespace muster::cli {

struct ParsedCleanup {
  // Set: the command line is answered by `text` alone; help on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines; mistakes begin with "muster cleanup: "
  HvdrunOptions options;
  std::string job;  // a job id or its beginning; empty: all
  bool dry_run = false;
  bool json = false;
};

// Reads no file but the configuration.
ParsedCleanup parse_cleanup(const std::vector<std::string>& arguments, const base::Environment& environment,
                            const ParseContext& context);

const FlagTable& cleanup_flags();
const CommandDoc& cleanup_doc();

}  // namespace muster::cli
