// Finds facts that differ between hosts and matter to a job that runs on all of them. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"

namespace muster::launcherd::inline doctor {

struct Difference {
  std::string name;  // "python", "cores", …
  std::string advice;
  // Each value, with the indices of the hosts that have it.
  std::vector<std::pair<std::string, std::vector<std::size_t>>> values;
};

// Ignores hosts that did not answer.
std::vector<Difference> compare_hosts(const std::vector<HostFindings>& findings);

}  // namespace muster::launcherd::doctor
