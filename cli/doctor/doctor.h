// `muster doctor`: looks for what would keep jobs from running on hosts.
#pragma once

#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline doctor {

struct ParsedDoctor : HostVerbLine {
  bool json = false;
};

// Reads no file but the configuration.
ParsedDoctor parse_doctor(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

const FlagTable& doctor_flags();
const CommandDoc& doctor_doc();

}  // namespace muster::cli::doctor
