#include "launcherd/queue/slots.h"

#include <algorithm>
#include <tuple>

#include "launcherd/queue/placed_hosts.h"

namespace muster::launcherd::inline queue {
namespace {

template <typename Change>
void for_names(SlotHost& host, std::vector<SlotHost>& hosts, Change change) {
  if (host.machine == SlotHost::kOneName) return change(host);
  for (SlotHost& each : hosts) {
    if (each.machine == host.machine) change(each);
  }
}

}  // namespace

const model::HostSpec* JobNeed::wanted(const std::string& host) const {
  const auto found = std::ranges::find(request.hosts, host, &model::HostSpec::name);
  return found == request.hosts.end() ? nullptr : &*found;
}

bool JobNeed::is_like(const JobNeed& other) const {
  const auto key = [](const JobNeed& need) {
    return std::tie(need.request.np, need.request.ranks_per_node, need.request.oversubscribe, need.request.map_by,
                    need.request.hosts, need.share.pinning, need.share.masks, need.share.role_masks);
  };
  return places.empty() && other.places.empty() && key(*this) == key(other);
}

bool awaits_host_facts(const JobNeed& need, const SlotHost& host) {
  return need.share.is_choosy() && !host.is_known() && host.is_open() && may_use(need, host);
}

std::vector<SlotHost> when_idle(std::span<const SlotHost> hosts) {
  std::vector<SlotHost> idle(hosts.begin(), hosts.end());
  for (SlotHost& host : idle) {
    host.used = 0;
    host.use = {};
  }
  return idle;
}

bool may_use(const JobNeed& need, const SlotHost& host) {
  return need.request.hosts.empty() || need.wanted(host.host.name) != nullptr;
}

bool may_use_by_any_name(const JobNeed& need, const SlotHost& host, std::span<const SlotHost> hosts) {
  if (may_use(need, host)) return true;
  return host.machine != SlotHost::kOneName && std::ranges::any_of(hosts, [&](const SlotHost& each) {
           return each.machine == host.machine && may_use(need, each);
         });
}

void acquire_slots(const model::Placement& placement, std::vector<SlotHost>& hosts) {
  for_each_placed(placement, hosts, [&](SlotHost& host, const model::PlacedHost& placed, int slots) {
    host.used += slots;
    if (placed.share) for_names(host, hosts, [&](SlotHost& each) { each.use.add(*placed.share); });
  });
}

void release_slots(const model::Placement& placement, std::vector<SlotHost>& hosts) {
  for_each_placed(placement, hosts, [&](SlotHost& host, const model::PlacedHost& placed, int slots) {
    host.used = std::max(0, host.used - slots);
    if (placed.share) for_names(host, hosts, [&](SlotHost& each) { each.use.remove(*placed.share); });
  });
}

}  // namespace muster::launcherd::queue
