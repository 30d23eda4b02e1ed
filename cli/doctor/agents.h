// `muster agents`: lists the agent programs that launchers have stored on hosts, and removes old ones.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "base/env.h"
#include "cli/doctor/host_verb.h"
#include "cli/help/command_doc.h"
#include "cli/options/options.h"

namespace muster::cli::inline doctor {

struct ParsedAgents : HostVerbLine {
  bool prune = false;
  std::chrono::milliseconds unused_for{std::chrono::hours(24)};  // --unused-for, with prune
  bool json = false;
};

// Reads no file except the configuration.
ParsedAgents parse_agents(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context);

const FlagTable& agents_flags();
const CommandDoc& agents_doc();

}  // namespace muster::cli::doctor
