#include "launcherd/run/same_hosts.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "model/device_id.h"

namespace muster::launcherd::inline run {

model::Placement merged(const model::Placement& placement, const std::vector<int>& first_of) {
  std::vector<model::HostSpec> hosts;
  std::vector<std::size_t> host_of_rank(static_cast<std::size_t>(placement.size));
  for (std::size_t i = 0; i < placement.hosts.size(); ++i) {
    const auto first = static_cast<std::size_t>(first_of[i]);
    hosts.push_back(placement.hosts[i].host);
    if (first != i) {
      hosts[first].slots = hosts[first].slots.value_or(placement.hosts[first].slots) + placement.hosts[i].slots;
    }
    for (const model::PlacedRank& rank : placement.hosts[i].ranks) {
      host_of_rank[static_cast<std::size_t>(rank.rank)] = first;
    }
  }
  model::Placement result = model::place_as_listed(hosts, host_of_rank);
  result.roles = placement.roles;
  return result;
}

std::optional<model::HostShare> joined(std::optional<model::HostShare> share,
                                       const std::optional<model::HostShare>& other) {
  if (!share || !other) return std::nullopt;
  const auto is_in_share = [&](const std::string& id) {
    return std::ranges::any_of(share->devices, [&](const std::string& own) { return model::is_same_device(own, id); });
  };
  std::vector<int> both;
  std::ranges::set_intersection(share->cpus, other->cpus, std::back_inserter(both));
  if (!both.empty() || std::ranges::any_of(other->devices, is_in_share)) return std::nullopt;
  std::vector<int> cpus;
  if (!share->cpus.empty() && !other->cpus.empty()) {
    std::ranges::set_union(share->cpus, other->cpus, std::back_inserter(cpus));
  }
  share->cpus = std::move(cpus);
  share->devices.insert(share->devices.end(), other->devices.begin(), other->devices.end());
  share->is_open = share->is_open || other->is_open;
  share->is_crowded = share->is_crowded || other->is_crowded;
  return share;
}

}  // namespace muster::launcherd::run
