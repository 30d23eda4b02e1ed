// What is not the same on all hosts and matters to a job that runs on them together. Pure.
#pragma once

#include <string>
#include <vector>

#include "launcherd/doctor/findings.h"

namespace muster::launcherd::inline doctor {

struct Difference {
  std::string name;  // "python", "cores", …
  std::string advice;
  std::vector<std::pair<std::string, std::vector<std::size_t>>> values;  // each with the hosts that have it, by index
};

// Hosts that did not answer count for nothing.
std::vector<Difference> compare_hosts(const std::vector<HostFindings>& findings);

}  // namespace muster::launcherd::doctor
