// The hosts of a placement in a list of hosts.
#pragma once

#include <algorithm>
#include <cstddef>

namespace muster::launcherd::inline queue {

// `change` is called with each of the placement's hosts that is there, where it is placed, and the slots that the job
// uses of it. Most placements are in the order of the list, so the next host is looked for from the last one on.
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
