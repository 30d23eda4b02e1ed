// `muster-agent --agents [--prune SECONDS]`: lists the agents that launchers have stored on this host. With --prune it
// removes those of other builds that no agent has used for so long. It does the same with environments of --stage-env.
//
// Output: the marker line, then a frame (proto/frame.h) with a v1::AgentsReport, on stdout.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "proto/muster/v1/agents.pb.h"

namespace muster::agent::inline commands {

// Agents that were not used for so long are removed whenever a new build is installed.
inline constexpr std::chrono::hours kForgottenAfter{30 * 24};

struct AgentsOptions {
  std::optional<std::chrono::seconds> prune;  // nullopt: remove nothing
};

// INVALID_ARGUMENT: the options are unknown or malformed.
base::Result<AgentsOptions> parse_agents(const std::vector<std::string>& arguments);

// Lists the agents in `folder`, and removes what `options` says. Used ones and this program's own stay.
v1::AgentsReport make_agents_report(const std::string& folder, const AgentsOptions& options, base::WallTime now);

// Adds the environments of --stage-env in these folders, and removes what `options` says. Used ones stay.
void add_environments(const std::vector<std::string>& folders, const AgentsOptions& options, v1::AgentsReport& report);

base::Status report_agents(const std::vector<std::string>& arguments);

// Removes agents beside this one that were not used for kForgottenAfter. Prints a remark on stderr for what fails.
void remove_forgotten_agents();

}  // namespace muster::agent::commands
