// `muster doctor`: checks hosts for problems that would keep jobs from running.
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

// Reads no file except the configuration.
ParsedDoctor parse_doctor(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

const FlagTable& doctor_flags();
const CommandDoc& doctor_doc();

}  // namespace muster::cli::doctor
