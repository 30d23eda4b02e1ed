// From what was found out about hosts to what is said of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"
#include "model/diagnosis.h"

namespace muster::launcherd::inline doctor {

// All checks in the order of the table, differences included; text of hosts made printable and bounded. One diagnosis
// a host, in their order. `agent_link`: as asked for (auto, ssh, dial).
std::vector<model::HostDiagnosis> judge_hosts(const std::vector<HostFindings>& findings, const std::string& agent_link);

// The same for one host, without differences.
model::HostDiagnosis judge_host(const HostFindings& findings, const std::string& agent_link);

// No host answered: there is nothing to say about any.
bool is_nothing_known(const std::vector<HostFindings>& findings);

}  // namespace muster::launcherd::doctor
