// Finds the hosts of a placement in a list of hosts.
//
// Thread: any; a pure function.
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::launcherd::inline queue {

// Calls `change` for each host of the placement that the list has. Its arguments are the entry of the list, the placed
// host, and the slots that the job uses of it. Most placements follow the order of the list, so each search begins
// where the last one ended.
template <typename Placement, typename Hosts, typename Change>
void for_each_placed(Placement& placement, Hosts& hosts, Change change) {
  std::size_t at = 0;
  for (auto& placed : placement.hosts) {
    for (std::size_t looked = 0; looked < hosts.size(); ++looked, at = (at + 1) % hosts.size()) {
      if (hosts[at].host.name != placed.host.name) continue;
      change(hosts[at], placed, std::min(static_cast<int>(placed.ranks.size()), hosts[at].slots));
      break;
    }
  }
}

}  // namespace muster::launcherd::queue
