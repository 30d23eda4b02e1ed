#include "launcherd/plan/rank_table.h"

#include <algorithm>
#include <vector>

namespace muster::launcherd::inline plan {

v1::RankTable rank_table_of(const model::Placement& placement,
                            const std::function<std::string(std::size_t)>& address_of,
                            const std::function<int(int rank)>& cpus_of) {
  v1::RankTable table;
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const model::PlacedHost& placed = placement.hosts[i];
    v1::RankTableHost& host = *table.add_hosts();
    host.set_name(placed.host.name);
    host.set_address(address_of(i));
    bool is_bound = false;
    // The agent takes the position for the local rank.
    std::vector<model::PlacedRank> ranks = placed.ranks;
    std::ranges::stable_sort(ranks, {}, &model::PlacedRank::local_rank);
    for (const model::PlacedRank& rank : ranks) {
      host.add_ranks(rank.rank);
      const int cpus = cpus_of(rank.rank);
      host.add_cpus(cpus);
      is_bound = is_bound || cpus > 0;
    }
    if (!is_bound) host.clear_cpus();
  }
  return table;
}

}  // namespace muster::launcherd::plan
