// Turns findings about hosts into the diagnoses that muster doctor prints. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"
#include "model/diagnosis.h"

namespace muster::launcherd::inline doctor {

// Runs all checks in the order of the table, and adds differences between hosts. Makes the hosts' text printable and
// cuts it. Returns one diagnosis per host, in the order of `findings`. `agent_link` is the requested value (auto, ssh,
// dial).
std::vector<model::HostDiagnosis> judge_hosts(const std::vector<HostFindings>& findings, const std::string& agent_link);

// Does the same for one host, without differences.
model::HostDiagnosis judge_host(const HostFindings& findings, const std::string& agent_link);

// True if no host answered, so that no host can be diagnosed.
bool no_host_answered(const std::vector<HostFindings>& findings);

}  // namespace muster::launcherd::doctor
