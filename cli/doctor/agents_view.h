// Formats the reports of `muster agents`. Text of hosts is made printable.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/agents.pb.h"

namespace muster::cli::inline doctor {

// Returns a table of the programs, lines about what failed, and a last line with counts.
std::string format_agents(const std::vector<v1::AgentsReport>& reports);

// Returns 0, 1 if a program could not be removed or a host did not answer, 125 if no host answered.
int agents_exit_code(const std::vector<v1::AgentsReport>& reports);

}  // namespace muster::cli::doctor
