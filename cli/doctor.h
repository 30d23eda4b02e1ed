// `muster doctor`: looks for what would keep jobs from running on hosts.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/command_doc.h"
#include "cli/options.h"

namespace muster::cli {

struct ParsedDoctor {
  // Set: the command line is answered by `text` alone; help on stdout with 0, a mistake on stderr with 2.
  std::optional<int> exit_code;
  std::string text;  // whole lines; mistakes begin with "muster doctor: "
  HvdrunOptions options;
  bool json = false;
};

// Reads no file but the configuration.
ParsedDoctor parse_doctor(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

const FlagTable& doctor_flags();
const CommandDoc& doctor_doc();

}  // namespace muster::cli
