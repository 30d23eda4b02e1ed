// The whole of fit.h: the placement of one job on the hosts.
// Read it in this order: fit at the end, fit_slots, fit_places, assign_shares, limit_to_shares.
#include "launcherd/queue/fit.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "launcherd/queue/offers.h"
#include "launcherd/queue/placed_hosts.h"
#include "model/host_binding.h"

namespace muster::launcherd::inline queue {
namespace {

bool is_idle(const SlotHost& host) {
  return host.is_open() && host.used == 0;
}

// Returns whether every host has enough slots for the ranks that the job places on it.
bool has_places(const JobNeed& need, std::span<const SlotHost> hosts, Room room) {
  for (const auto& [name, count] : ranks_by_host(need)) {
    const SlotHost* const host = find_host(hosts, name);
    if (host == nullptr || !host->is_open()) return false;
    if (room == Room::kFree && (host->is_starting() || awaits_host_facts(need, *host))) return false;
    const int there = room == Room::kIdle ? host->slots : host->free();
    const bool is_all = need.request.oversubscribe && count > host->slots && (room == Room::kIdle || is_idle(*host));
    if (there < count && !is_all) return false;
  }
  return true;
}

// Returns whether the job would have slots if nothing ran. `room` is kIdle or kIdleSlots.
bool has_idle_slots(Offers& offers, Room room) {
  const JobNeed& need = offers.need();
  if (!need.places.empty()) return has_places(need, offers.hosts(), Room::kIdle);
  const long there = offers.total(room, need.ranks());
  if (there >= need.ranks()) return true;
  if (!need.request.oversubscribe || there == 0) return false;
  // Oversubscribing does not override -N (ranks a host).
  const auto usable = std::ranges::count_if(
      offers.usable(), [](const Offer& offer) { return offer.host->is_open() && offer.host->slots > 0; });
  return need.request.ranks_per_node == 0 || need.request.ranks_per_node * usable >= need.ranks();
}

// Returns the host with the job's user and port, which override those in launcherd's list.
model::HostSpec named(const Offer& offer, int slots) {
  model::HostSpec spec = offer.host->host;
  if (offer.wanted != nullptr) {
    if (!offer.wanted->user.empty()) spec.user = offer.wanted->user;
    if (offer.wanted->port != 0) spec.port = offer.wanted->port;
  }
  spec.slots = slots;
  spec.max_slots.reset();
  return spec;
}

std::optional<model::Placement> fit_places(Offers& offers, Room room) {
  const JobNeed& need = offers.need();
  if (!has_places(need, offers.hosts(), room)) return std::nullopt;
  std::vector<model::HostSpec> specs;
  std::map<std::string, std::size_t> index_of;
  for (const Offer& offer : offers.usable()) {
    index_of[offer.host->host.name] = specs.size();
    specs.push_back(named(offer, offer.host->slots));
  }
  std::vector<std::size_t> host_of_rank;
  for (const model::RankPlace& place : need.places) host_of_rank.push_back(index_of.at(place.host));
  return model::place_as_listed(specs, host_of_rank);
}

// Places ranks on slots without regard to shares. `room` is kFree or kFreeSlots.
std::optional<model::Placement> fit_slots(Offers& offers, Room room) {
  const JobNeed& need = offers.need();
  if (!need.places.empty()) return fit_places(offers, room);
  const bool takes_all = offers.is_oversubscribing();
  const Room idle = room == Room::kFree ? Room::kIdle : Room::kIdleSlots;
  if (takes_all ? !has_idle_slots(offers, idle) : offers.total(room, need.ranks()) < need.ranks()) {
    return std::nullopt;
  }
  model::PlacementRequest request{.np = need.ranks(), .oversubscribe = takes_all, .map_by = need.request.map_by};
  long left = need.ranks();  // ranks without a host so far
  for (Offer& offer : offers.usable()) {
    if (left <= 0 && !takes_all) break;
    const SlotHost& host = *offer.host;
    const bool is_awaited = room == Room::kFree && awaits_host_facts(need, host);
    if (takes_all && host.is_open() && (host.used > 0 || is_awaited)) return std::nullopt;
    const int there = offers.room(offer, room);
    if (there == 0) continue;
    request.hosts.push_back(named(offer, there));
    left -= request.map_by == model::MapBy::kNode ? 1 : there;  // by node, each host gets only one rank at first
    if (takes_all && need.request.ranks_per_node > 0) request.hosts.back().max_slots = need.request.ranks_per_node;
  }
  auto placement = model::place(request);
  if (!placement.ok()) return std::nullopt;
  return std::move(*placement);
}

// Counts what jobs use of the hosts, and what the current job gets. If a host has several names, they share one count.
class UseByNames {
 public:
  const HostUse& of(const SlotHost& host) const {
    const auto found = uses_.find(host.machine);
    return found == uses_.end() ? host.use : found->second;
  }
  void add(const SlotHost& host, const model::HostShare& share) {
    if (host.machine != SlotHost::kOneName) uses_.try_emplace(host.machine, host.use).first->second.add(share);
  }

 private:
  std::map<int, HostUse> uses_;
};

// Assigns the job its share of each known host. Returns the first host that cannot provide it.
std::optional<Misfit> assign_shares(const JobNeed& need, std::span<const SlotHost> hosts, model::Placement& placement) {
  std::optional<Misfit> misfit;
  UseByNames use;
  for_each_placed(placement, hosts, [&](const SlotHost& host, model::PlacedHost& placed, int) {
    if (host.shape == nullptr || misfit) return;
    auto share = share_of(need.share, *host.shape, use.of(host), host.all_slots(),
                          model::requests_on(need.places, need.share.role_masks, placed));
    if (share.ok()) {
      use.add(host, *share);
      placed.share = *std::move(share);
    } else {
      misfit = Misfit{host.host.name, share.status()};
    }
  });
  return misfit;
}

// Returns how many ranks, up to `most`, can have their share on the host, and the share of these ranks.
std::pair<int, std::optional<model::HostShare>> most_with_share(const JobNeed& need, const SlotHost& host,
                                                                const HostUse& use, int most) {
  int fewest = 0;  // so many ranks are known to have their share
  std::optional<model::HostShare> theirs;
  for (int ranks = most; fewest < most; ranks = most - (most - fewest) / 2) {
    const std::vector<model::RankRequest> rank_requests(static_cast<std::size_t>(ranks));
    auto share = share_of(need.share, *host.shape, use, host.all_slots(), rank_requests);
    if (share.ok()) {
      fewest = ranks;
      theirs = *std::move(share);
    } else {
      most = ranks - 1;
    }
  }
  return {fewest, std::move(theirs)};
}

// Limits the ranks on each host to the number that can have their share on that host.
void limit_to_shares(Offers& offers) {
  UseByNames use;
  for (Offer& offer : offers.usable()) {
    const SlotHost& host = *offer.host;
    if (host.shape == nullptr) continue;
    const int room = std::min(offers.room(offer, Room::kFree), offers.need().ranks());
    auto [most, share] = most_with_share(offers.need(), host, use.of(host), room);
    offer.most = most;
    if (share) use.add(host, *share);
  }
}

}  // namespace

const SlotHost* find_host(std::span<const SlotHost> hosts, const std::string& name) {
  const auto found = std::ranges::find_if(hosts, [&](const SlotHost& each) { return each.host.name == name; });
  return found == hosts.end() ? nullptr : &*found;
}

std::map<std::string, int> ranks_by_host(const JobNeed& need) {
  std::map<std::string, int> counts;
  for (const model::RankPlace& place : need.places) ++counts[place.host];
  return counts;
}

bool has_idle_slots(const JobNeed& need, std::span<const SlotHost> hosts) {
  Offers offers(need, hosts, nullptr);
  return has_idle_slots(offers, Room::kIdle);
}

std::optional<Misfit> find_misfit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known) {
  Offers offers(need, hosts, known);
  auto placement = fit_slots(offers, Room::kFreeSlots);
  return placement ? assign_shares(need, hosts, *placement) : std::nullopt;
}

std::optional<model::Placement> fit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known) {
  Offers offers(need, hosts, known);
  auto placement = fit_slots(offers, Room::kFree);
  auto misfit = placement ? assign_shares(need, hosts, *placement) : std::nullopt;
  if (!misfit) return placement;
  // Another host may provide what this one lacks. A job that oversubscribes uses all its hosts, so no other host is
  // left.
  if (!need.places.empty() || offers.is_oversubscribing()) return std::nullopt;
  limit_to_shares(offers);
  while (true) {
    placement = fit_slots(offers, Room::kFree);
    misfit = placement ? assign_shares(need, hosts, *placement) : std::nullopt;
    if (!misfit) return placement;
    std::ranges::find_if(offers.usable(), [&](const Offer& offer) {
      return offer.host->host.name == misfit->host;
    })->most = 0;
  }
}

}  // namespace muster::launcherd::queue
