#include "launcherd/queue/offers.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>

namespace muster::launcherd::inline queue {
namespace {

bool counts_gpus(Room room) {
  return room == Room::kFree || room == Room::kIdle;
}

}  // namespace

Offers::Offers(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known)
    : need_(need), hosts_(hosts), devices_(&(known != nullptr ? *known : own_).of(need.share)) {
  std::unordered_map<std::string_view, const model::HostSpec*> wanted;
  for (const model::HostSpec& host : need.request.hosts) wanted.emplace(host.name, &host);
  offers_.reserve(wanted.empty() ? hosts.size() : wanted.size());
  for (const SlotHost& host : hosts) {
    const auto found = wanted.find(host.host.name);
    if (!wanted.empty() && found == wanted.end()) continue;
    offers_.push_back({.host = &host, .wanted = wanted.empty() ? nullptr : found->second});
  }
  if (!wanted.empty()) std::ranges::stable_sort(offers_, std::ranges::less(), &Offer::wanted);
}

std::vector<const SlotHost*> Offers::usable_hosts() const {
  std::vector<const SlotHost*> hosts;
  for (const Offer& offer : offers_) hosts.push_back(offer.host);
  return hosts;
}

const std::optional<std::vector<std::string>>& Offers::devices(const Offer& offer) {
  const model::NodeShape* const shape = offer.host->shape.get();
  const auto [entry, is_new] = devices_->try_emplace(shape);
  if (is_new && shape != nullptr) entry->second = devices_for(need_.share, *shape);
  return entry->second;
}

// Returns how many of `slots` the job may use.
int Offers::max_slots(const Offer& offer, int slots) const {
  int most = slots;
  if (offer.wanted != nullptr && offer.wanted->slots) most = std::min(most, *offer.wanted->slots);
  if (need_.request.ranks_per_node > 0) most = std::min(most, need_.request.ranks_per_node);
  return most;
}

// Returns whether some host has GPUs, or may have them, for a job that asks for GPUs. If so, no rank goes to a host
// without GPUs. Exception: a job that names hosts and needs all their slots also uses the hosts without GPUs.
bool Offers::has_gpu_hosts() {
  if (has_gpu_hosts_) return *has_gpu_hosts_;
  has_gpu_hosts_ = false;
  if (!need_.share.asks_for_gpus() || !need_.places.empty()) return false;
  if (!need_.request.hosts.empty()) {
    long slots = 0;
    for (const Offer& offer : offers_) slots += max_slots(offer, offer.host->slots);
    if (need_.ranks() >= slots) return false;
  }
  has_gpu_hosts_ = std::ranges::any_of(offers_, [&](Offer& offer) {
    if (awaits_host_facts(need_, *offer.host)) return true;
    const auto& all = devices(offer);
    return all && !all->empty();
  });
  return *has_gpu_hosts_;
}

int Offers::room_for_gpus(Offer& offer, Room room) {
  const SlotHost& host = *offer.host;
  if (!need_.places.empty()) return kAnyRanks;
  if (room == Room::kFree && (host.is_starting() || awaits_host_facts(need_, host))) return 0;
  if (host.shape == nullptr || need_.share.pinning.gpu_bind == model::GpuBind::kNone) return kAnyRanks;
  const auto& all = devices(offer);
  if (has_gpu_hosts() && (!all || all->empty())) return 0;
  if (!need_.share.role_masks.empty()) return kAnyRanks;  // some ranks may need no GPU, so the job's share decides
  static const HostUse kNothing;
  return all ? ranks_for_gpus(need_.share, *all, *host.shape, room == Room::kIdle ? kNothing : host.use,
                              host.all_slots())
             : kAnyRanks;
}

int Offers::room(Offer& offer, Room room) {
  const SlotHost& host = *offer.host;
  const bool is_idle = room == Room::kIdle || room == Room::kIdleSlots;
  int most = max_slots(offer, !is_idle ? host.free() : host.is_open() ? host.slots : 0);
  if (room == Room::kFree) most = std::min(most, offer.most);
  return most > 0 && counts_gpus(room) ? std::min(most, room_for_gpus(offer, room)) : most;
}

long Offers::total(Room room, long enough) {
  long total = 0;
  // By SlotHost::machine: how many more ranks its GPUs can serve. Only for machines with several names.
  std::map<int, int> left;
  for (Offer& offer : offers_) {
    if (total >= enough) break;
    int there = this->room(offer, room);
    if (there > 0 && counts_gpus(room) && offer.host->machine != SlotHost::kOneName) {
      int& most = left.try_emplace(offer.host->machine, room_for_gpus(offer, room)).first->second;
      there = std::min(there, most);
      most -= there;
    }
    total += there;
  }
  return total;
}

bool Offers::is_oversubscribing() {
  return need_.request.oversubscribe && need_.places.empty() && total(Room::kIdleSlots, need_.ranks()) < need_.ranks();
}

int Offers::free_gpus() {
  int free = 0;
  std::set<int> counted;
  for (Offer& offer : offers_) {
    const SlotHost& host = *offer.host;
    if (host.shape == nullptr || !host.is_open()) continue;
    if (host.machine != SlotHost::kOneName && !counted.insert(host.machine).second) continue;
    if (const auto& all = devices(offer)) free += free_devices(*all, *host.shape, host.use);
  }
  return free;
}

}  // namespace muster::launcherd::queue
