#include "launcherd/placement/slots.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/strings.h"
#include "model/gpu_mask.h"
#include "model/host_binding.h"

namespace muster::launcherd {
namespace {

using base::Code;

const model::HostSpec* wanted_host(const JobNeed& need, const std::string& name) {
  const auto found = std::ranges::find(need.request.hosts, name, &model::HostSpec::name);
  return found == need.request.hosts.end() ? nullptr : &*found;
}

// kSlots: as kFree, without a look at anything but slots.
enum class Room { kFree, kIdle, kSlots };

// Whether a job that asks for GPUs finds some, or may do so: then none of it goes to a host without. One that names
// hosts and wants all their slots has said that it wants these as well.
bool has_gpu_hosts(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!need.share.asks_for_gpus() || !need.places.empty()) return false;
  bool is_any = false;
  long slots = 0;
  for (const SlotHost& host : hosts) {
    if (!may_use(need, host)) continue;
    const model::HostSpec* const wanted = wanted_host(need, host.host.name);
    int most = wanted != nullptr && wanted->slots ? std::min(*wanted->slots, host.slots) : host.slots;
    if (need.request.ranks_per_node > 0) most = std::min(most, need.request.ranks_per_node);
    slots += most;
    is_any = is_any || waits_for_news(need, host) || (host.shape != nullptr && has_devices(need.share, *host.shape));
  }
  return is_any && (need.request.hosts.empty() || need.ranks() < slots);
}

// How many ranks the host takes of the job, when what is used is used, or when nothing is.
int room_for_gpus(const JobNeed& need, const SlotHost& host, Room room, bool has_gpus) {
  if (room == Room::kSlots || !need.places.empty()) return kAnyRanks;
  if (room == Room::kFree && (host.is_asked() || waits_for_news(need, host))) return 0;
  if (host.shape == nullptr) return kAnyRanks;
  if (has_gpus && !has_devices(need.share, *host.shape)) return 0;
  static const HostUse kNothing;
  return ranks_for_gpus(need.share, *host.shape, room == Room::kIdle ? kNothing : host.use, host.all_slots());
}

// `has_gpus`: has_gpu_hosts().
int room_on(const JobNeed& need, const SlotHost& host, Room room, bool has_gpus) {
  if (!may_use(need, host)) return 0;
  const model::HostSpec* const wanted = wanted_host(need, host.host.name);
  const int there = host.is_open() ? host.slots : 0;
  int most = room == Room::kIdle ? there : host.free();
  if (wanted != nullptr && wanted->slots) most = std::min(most, *wanted->slots);
  if (need.request.ranks_per_node > 0) most = std::min(most, need.request.ranks_per_node);
  if (room == Room::kFree) most = std::min(most, host.most);
  return most > 0 ? std::min(most, room_for_gpus(need, host, room, has_gpus)) : most;
}

long total_room(const JobNeed& need, std::span<const SlotHost> hosts, Room room) {
  const bool has_gpus = has_gpu_hosts(need, hosts);
  long total = 0;
  std::map<int, int> left;  // ranks that the GPUs of a host with several names are enough for
  for (const SlotHost& host : hosts) {
    int there = room_on(need, host, room, has_gpus);
    if (there > 0 && host.machine != SlotHost::kOneName) {
      int& enough = left.try_emplace(host.machine, room_for_gpus(need, host, room, has_gpus)).first->second;
      there = std::min(there, enough);
      enough -= there;
    }
    total += there;
  }
  return total;
}

const SlotHost* find_host(std::span<const SlotHost> hosts, const std::string& name) {
  const auto found = std::ranges::find_if(hosts, [&](const SlotHost& each) { return each.host.name == name; });
  return found == hosts.end() ? nullptr : &*found;
}

std::map<std::string, int> ranks_by_host(const JobNeed& need) {
  std::map<std::string, int> counts;
  for (const model::RankPlace& place : need.places) ++counts[place.host];
  return counts;
}

bool is_idle(const SlotHost& host) {
  return host.is_open() && host.used == 0;
}

// Whether every host has the slots for the ranks that were placed on it.
bool has_places(const JobNeed& need, std::span<const SlotHost> hosts, Room room) {
  for (const auto& [name, count] : ranks_by_host(need)) {
    const SlotHost* const host = find_host(hosts, name);
    if (host == nullptr || !host->is_open()) return false;
    if (room == Room::kFree && (host->is_asked() || waits_for_news(need, *host))) return false;
    const int there = room == Room::kFree ? host->free() : host->slots;
    const bool is_all = need.request.oversubscribe && count > host->slots && (room == Room::kIdle || is_idle(*host));
    if (there < count && !is_all) return false;
  }
  return true;
}

// As if nothing was known of it.
SlotHost without_shape(const SlotHost& host) {
  return {.host = host.host,
          .slots = host.slots,
          .used = host.used,
          .source = host.source,
          .is_drained = host.is_drained,
          .is_down = host.is_down};
}

// More ranks than the job's hosts have slots: it takes all of them.
bool is_oversubscribing(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!need.request.oversubscribe || !need.places.empty()) return false;
  long slots = 0;
  for (const SlotHost& host : hosts) slots += room_on(need, without_shape(host), Room::kIdle, false);
  return slots < need.ranks();
}

// What the job says of a host goes before what the list says.
model::HostSpec named(const JobNeed& need, const SlotHost& host, int slots) {
  model::HostSpec spec = host.host;
  if (const model::HostSpec* const wanted = wanted_host(need, host.host.name)) {
    if (!wanted->user.empty()) spec.user = wanted->user;
    if (wanted->port != 0) spec.port = wanted->port;
  }
  spec.slots = slots;
  spec.max_slots.reset();
  return spec;
}

// In the job's order of hosts, where it names some.
std::vector<const SlotHost*> in_order(const JobNeed& need, std::span<const SlotHost> hosts) {
  std::vector<const SlotHost*> ordered;
  for (const SlotHost& host : hosts) {
    if (may_use(need, host)) ordered.push_back(&host);
  }
  if (need.request.hosts.empty()) return ordered;
  std::ranges::stable_sort(ordered, {}, [&](const SlotHost* host) { return wanted_host(need, host->host.name); });
  return ordered;
}

std::optional<model::Placement> fit_places(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!has_places(need, hosts, Room::kFree)) return std::nullopt;
  std::vector<model::HostSpec> specs;
  std::map<std::string, std::size_t> index_of;
  for (const SlotHost& host : hosts) {
    if (!may_use(need, host)) continue;
    index_of[host.host.name] = specs.size();
    specs.push_back(named(need, host, host.slots));
  }
  std::vector<std::size_t> host_of_rank;
  for (const model::RankPlace& place : need.places) host_of_rank.push_back(index_of.at(place.host));
  return model::place_as_told(specs, host_of_rank);
}

// Each name once; repeats add their slots.
std::vector<model::HostSpec> merged_hosts(const std::vector<model::HostSpec>& list) {
  std::vector<model::HostSpec> merged;
  for (const model::HostSpec& wanted : list) {
    const auto same = std::ranges::find(merged, wanted.name, &model::HostSpec::name);
    if (same == merged.end()) {
      merged.push_back(wanted);
    } else if (same->slots && wanted.slots) {
      same->slots = std::min(*same->slots + *wanted.slots, model::kMaxSlotsPerHost);
    } else {
      same->slots.reset();
    }
  }
  return merged;
}

base::Status check_hosts(const JobNeed& need, std::span<const SlotHost> hosts) {
  for (const model::HostSpec& wanted : need.request.hosts) {
    if (find_host(hosts, wanted.name) == nullptr) {
      return base::error(Code::kInvalidArgument, "spec.hosts: {} is none of launcherd's hosts: muster hosts lists them",
                         wanted.name);
    }
  }
  return base::ok_status();
}

// Where the spec says no number.
long ranks_left_to_hosts(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (need.request.ranks_per_node > 0) {
    const auto count = need.request.hosts.empty() ? hosts.size() : need.request.hosts.size();
    return static_cast<long>(need.request.ranks_per_node) * static_cast<long>(count);
  }
  if (need.request.hosts.empty()) return 1;
  long slots = 0;
  for (const SlotHost& host : hosts) {
    const model::HostSpec* const wanted = wanted_host(need, host.host.name);
    if (wanted != nullptr) slots += wanted->slots.value_or(host.slots);
  }
  return slots;
}

std::string slot_count(long count) {
  return fmt::format("{} {}", count, count == 1 ? "slot" : "slots");
}

std::string names(const std::vector<const SlotHost*>& hosts) {
  if (hosts.empty()) return "no host";
  if (hosts.size() == 1) return hosts.front()->host.name;
  if (hosts.size() == 2) return fmt::format("{} and {}", hosts.front()->host.name, hosts.back()->host.name);
  return fmt::format("{}..{}", hosts.front()->host.name, hosts.back()->host.name);
}

std::string closed_remark(const std::vector<const SlotHost*>& hosts) {
  std::vector<const SlotHost*> drained;
  std::vector<const SlotHost*> down;
  std::ranges::copy_if(hosts, std::back_inserter(drained), &SlotHost::is_drained);
  std::ranges::copy_if(hosts, std::back_inserter(down),
                       [](const SlotHost* host) { return host->is_down && !host->is_drained; });
  std::vector<const SlotHost*> asked;
  std::ranges::copy_if(hosts, std::back_inserter(asked), [](const SlotHost* host) {
    return host->source == SlotSource::kAwaited && !host->is_down && !host->is_drained;
  });
  std::string remark;
  if (!drained.empty()) remark += fmt::format("; {} {} drained", names(drained), drained.size() == 1 ? "is" : "are");
  if (!down.empty()) remark += fmt::format("; {} cannot be reached", names(down));
  if (!asked.empty()) {
    remark += fmt::format("; {} {} being asked for GPUs", names(asked), asked.size() == 1 ? "is" : "are");
  }
  return remark;
}

// Of hosts whose slots are not known, for who is refused because of them.
std::string uncounted_remark(const std::vector<const SlotHost*>& hosts) {
  std::vector<const SlotHost*> uncounted;
  std::ranges::copy_if(hosts, std::back_inserter(uncounted), [](const SlotHost* host) {
    return host->source == SlotSource::kAwaited || host->source == SlotSource::kUnknown;
  });
  if (uncounted.empty()) return "";
  return fmt::format("; {} {} as one slot, since {} GPUs are not known (muster hosts says why)", names(uncounted),
                     uncounted.size() == 1 ? "counts" : "count each", uncounted.size() == 1 ? "its" : "their");
}

// All open and idle, with the slots that are known.
std::vector<SlotHost> as_if_open(std::span<const SlotHost> hosts) {
  std::vector<SlotHost> open(hosts.begin(), hosts.end());
  for (SlotHost& host : open) {
    host.is_drained = host.is_down = false;
    if (host.source == SlotSource::kAwaited) host.source = SlotSource::kUnknown;
  }
  return open;
}

std::string why_no_places(const JobNeed& need, std::span<const SlotHost> hosts) {
  for (const auto& [name, count] : ranks_by_host(need)) {
    const SlotHost* const host = find_host(hosts, name);
    if (host == nullptr) return fmt::format("needs host {}, which launcherd's list does not have any more", name);
    if (host->is_drained) return fmt::format("needs {} on {}, which is drained", slot_count(count), name);
    if (host->is_down) return fmt::format("needs {} on {}, which cannot be reached", slot_count(count), name);
    if (!host->is_open()) return fmt::format("needs {} on {}, which is being asked for GPUs", slot_count(count), name);
    if (host->free() < count) {
      return fmt::format("needs {} on {}, {} {} free there", slot_count(count), name, host->free(),
                         host->free() == 1 ? "is" : "are");
    }
  }
  return "";
}

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

template <typename Change>
void for_names(SlotHost& host, std::vector<SlotHost>& hosts, Change change) {
  if (host.machine == SlotHost::kOneName) return change(host);
  for (SlotHost& each : hosts) {
    if (each.machine == host.machine) change(each);
  }
}

// Where its share of a host is not to be had, and why.
struct Misfit {
  std::string host;
  base::Status why;
};

// Whether there would be the slots for it if nothing else ran, as far as is known.
bool has_idle_slots(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!need.places.empty()) return has_places(need, hosts, Room::kIdle);
  const long room = total_room(need, hosts, Room::kIdle);
  if (room >= need.ranks()) return true;
  if (!need.request.oversubscribe || room == 0) return false;
  // What -N forbids, oversubscribing does not allow.
  const auto usable = std::ranges::count_if(
      hosts, [&](const SlotHost& host) { return host.is_open() && may_use(need, host) && host.slots > 0; });
  return need.request.ranks_per_node == 0 || need.request.ranks_per_node * usable >= need.ranks();
}

std::optional<model::Placement> fit_slots(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (!need.places.empty()) return fit_places(need, hosts);
  const bool takes_all = is_oversubscribing(need, hosts);
  if (takes_all ? !has_idle_slots(need, hosts) : total_room(need, hosts, Room::kFree) < need.ranks()) {
    return std::nullopt;
  }
  model::PlacementRequest request{.np = need.ranks(), .oversubscribe = takes_all, .map_by = need.request.map_by};
  const bool has_gpus = has_gpu_hosts(need, hosts);
  for (const SlotHost* const host : in_order(need, hosts)) {
    if (takes_all && host->is_open() && (host->used > 0 || waits_for_news(need, *host))) return std::nullopt;
    const int room = room_on(need, *host, Room::kFree, has_gpus);
    if (room == 0) continue;
    request.hosts.push_back(named(need, *host, room));
    if (takes_all && need.request.ranks_per_node > 0) request.hosts.back().max_slots = need.request.ranks_per_node;
  }
  auto placement = model::place(request);
  if (!placement.ok()) return std::nullopt;
  return std::move(*placement);
}

// What jobs have of hosts, with what one job is being given: of all names of a host the same.
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

// Its share of each host that is known.
std::optional<Misfit> give_shares(const JobNeed& need, std::span<const SlotHost> hosts, model::Placement& placement) {
  std::optional<Misfit> misfit;
  UseByNames use;
  for_each_placed(placement, hosts, [&](const SlotHost& host, model::PlacedHost& placed, int) {
    if (host.shape == nullptr || misfit) return;
    auto share = share_of(need.share, *host.shape, use.of(host), host.all_slots(),
                          model::wishes_on(need.places, need.share.role_masks, placed));
    if (share.ok()) {
      use.add(host, *share);
      placed.share = *std::move(share);
    } else {
      misfit = Misfit{host.host.name, share.status()};
    }
  });
  return misfit;
}

// So many ranks on each host as can have their share there.
void limit_to_shares(const JobNeed& need, std::vector<SlotHost>& hosts) {
  const bool has_gpus = has_gpu_hosts(need, hosts);
  UseByNames use;
  for (SlotHost& host : hosts) {
    if (host.shape == nullptr) continue;
    int fewest = 0;  // have it
    int most = std::min(room_on(need, host, Room::kFree, has_gpus), need.ranks());
    std::optional<model::HostShare> theirs;
    while (fewest < most) {
      const int middle = most - (most - fewest) / 2;
      const std::vector<model::RankWish> wishes(static_cast<std::size_t>(middle));
      auto share = share_of(need.share, *host.shape, use.of(host), host.all_slots(), wishes);
      if (share.ok()) {
        fewest = middle;
        theirs = *std::move(share);
      } else {
        most = middle - 1;
      }
    }
    host.most = fewest;
    if (theirs) use.add(host, *theirs);
  }
}

// Of a job for which there are the slots: the first host where its share is not to be had.
std::optional<Misfit> find_misfit(const JobNeed& need, std::span<const SlotHost> hosts) {
  std::vector<SlotHost> by_slots;
  for (const SlotHost& host : hosts) by_slots.push_back(without_shape(host));
  auto placement = fit_slots(need, by_slots);
  return placement ? give_shares(need, hosts, *placement) : std::nullopt;
}

// What keeps a job waiting for which there are the slots.
std::string why_no_share(const JobNeed& need, std::span<const SlotHost> hosts) {
  const auto asked = std::ranges::find_if(
      hosts, [&](const SlotHost& host) { return host.is_open() && may_use(need, host) && host.is_asked(); });
  if (asked != hosts.end()) {
    return fmt::format("waits until {} has told what cores and GPUs it has: another job is being started there",
                       asked->host.name);
  }
  const auto unknown = std::ranges::find_if(hosts, [&](const SlotHost& host) { return waits_for_news(need, host); });
  if (unknown != hosts.end()) {
    return fmt::format("waits until {} has told what {} it has", unknown->host.name,
                       need.share.pinning.bind_to == model::BindTo::kDepth ? "cores and GPUs" : "GPUs");
  }
  if (need.places.empty() && total_room(need, hosts, Room::kFree) < need.ranks()) {
    const bool asks = need.share.asks_for_gpus();
    const long wanted = static_cast<long>(need.ranks()) * std::max(need.share.pinning.gpus_per_rank, 1);
    long free = 0;
    std::set<int> counted;
    for (const SlotHost& host : hosts) {
      if (host.shape == nullptr || !host.is_open() || !may_use(need, host)) continue;
      if (host.machine != SlotHost::kOneName && !counted.insert(host.machine).second) continue;
      free += free_devices(need.share, *host.shape, host.use);
    }
    const char* const noun = need.share.pinning.gpu_bind == model::GpuBind::kTile ? "tile" : "GPU";
    return fmt::format("needs {} {}{}, {} {} free on {}{}", wanted, noun, wanted == 1 ? "" : "s", free,
                       free == 1 ? "is" : "are", names(in_order(need, hosts)),
                       asks ? "" : " (--gpu-bind none if its ranks need none)");
  }
  const auto misfit = find_misfit(need, hosts);
  return misfit ? fmt::format("{}: {}", misfit->host, misfit->why.message()) : "waits for its turn";
}

// INVALID_ARGUMENT: there are the slots for it, and never the GPUs or cores. `hosts`: as_if_open().
base::Status check_shares(const JobNeed& need, std::span<const SlotHost> hosts) {
  const bool are_known =
      std::ranges::all_of(hosts, [&](const SlotHost& host) { return !may_use(need, host) || host.shape != nullptr; });
  if (!are_known) return base::ok_status();
  const std::vector<SlotHost> all = when_idle(hosts);
  if (fit(need, all)) return base::ok_status();
  const auto misfit = find_misfit(need, all);
  return misfit ? misfit->why.with_context(misfit->host) : base::ok_status();
}

}  // namespace

ShareWish share_wish(const model::JobSpec& job) {
  ShareWish wish{.pinning = job.pinning};
  model::set_gpu_masks(model::exported_variables({}, job.environment, false), wish.masks);
  wish.role_masks = model::role_masks(job.roles, {});
  return wish;
}

JobNeed need_of(const model::JobSpec& job, int ranks) {
  JobNeed need{.request = job.placement, .places = job.places, .share = share_wish(job)};
  need.request.hosts = merged_hosts(job.placement.hosts);
  need.request.np = ranks;
  return need;
}

base::Result<JobNeed> need_of(const model::JobSpec& job, std::span<const SlotHost> hosts, bool more_come) {
  JobNeed need = need_of(job, job.placement.np);
  MUSTER_RETURN_IF_ERROR(check_hosts(need, hosts));
  const long ranks = job.placement.np > 0 ? job.placement.np : ranks_left_to_hosts(need, hosts);
  if (ranks > model::kMaxRanks) {
    return base::error(Code::kInvalidArgument, "spec.size: {} ranks are more than the {} of one job", ranks,
                       model::kMaxRanks);
  }
  need.request.np = static_cast<int>(ranks);
  const std::vector<SlotHost> undrained = as_if_open(hosts);
  const bool is_for_more = more_come && need.places.empty() && need.request.hosts.empty();
  if (ranks > 0 && is_for_more) return need;
  if (ranks > 0) MUSTER_RETURN_IF_ERROR(check_shares(need, undrained));
  if (ranks > 0 && has_idle_slots(need, undrained)) return need;
  if (!need.places.empty()) {
    return base::error(Code::kInvalidArgument, "spec.hosts.ranks: {}", why_no_places(need, undrained));
  }
  const auto usable = in_order(need, undrained);
  return base::error(
      Code::kInvalidArgument, "spec.size: {} are needed, and {} together {} {} for this job{}{}", slot_count(ranks),
      names(usable), usable.size() == 1 ? "has" : "have", total_room(need, undrained, Room::kIdle),
      need.request.oversubscribe ? "" : ": ask for fewer, or set oversubscribe", uncounted_remark(usable));
}

bool depends_on_counts(const model::JobSpec& job, std::span<const SlotHost> hosts) {
  const JobNeed named = need_of(job, job.placement.np);
  if (!check_hosts(named, hosts).ok()) return false;
  const auto is_awaited = [&](const SlotHost& host) {
    return host.source == SlotSource::kAwaited && may_use(named, host);
  };
  if (std::ranges::none_of(hosts, is_awaited)) return false;
  const bool is_left_to_hosts =
      job.placement.np == 0 && job.placement.ranks_per_node == 0 && !named.request.hosts.empty();
  if (!is_left_to_hosts) return !need_of(job, hosts).ok();
  return std::ranges::any_of(
      hosts, [&](const SlotHost& host) { return is_awaited(host) && !wanted_host(named, host.host.name)->slots; });
}

bool waits_for_news(const JobNeed& need, const SlotHost& host) {
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
  return need.request.hosts.empty() || wanted_host(need, host.host.name) != nullptr;
}

bool may_use_by_any_name(const JobNeed& need, const SlotHost& host, std::span<const SlotHost> hosts) {
  if (may_use(need, host)) return true;
  return host.machine != SlotHost::kOneName && std::ranges::any_of(hosts, [&](const SlotHost& each) {
           return each.machine == host.machine && may_use(need, each);
         });
}

std::optional<model::Placement> fit(const JobNeed& need, std::span<const SlotHost> hosts) {
  auto placement = fit_slots(need, hosts);
  std::optional<Misfit> misfit = placement ? give_shares(need, hosts, *placement) : std::nullopt;
  std::vector<SlotHost> others;
  // Another host may have what that one has not; who oversubscribes has all of them.
  while (misfit && need.places.empty() && !need.request.oversubscribe) {
    if (others.empty()) {
      others.assign(hosts.begin(), hosts.end());
      limit_to_shares(need, others);
    } else {
      std::ranges::find_if(others, [&](const SlotHost& host) { return host.host.name == misfit->host; })->most = 0;
    }
    placement = fit_slots(need, others);
    misfit = placement ? give_shares(need, others, *placement) : std::nullopt;
  }
  if (misfit) return std::nullopt;
  return placement;
}

bool JobNeed::is_like(const JobNeed& other) const {
  const auto key = [](const JobNeed& need) {
    return std::tie(need.request.np, need.request.ranks_per_node, need.request.oversubscribe, need.request.map_by,
                    need.request.hosts, need.share.pinning, need.share.masks, need.share.role_masks);
  };
  return places.empty() && other.places.empty() && key(*this) == key(other);
}

void take_slots(const model::Placement& placement, std::vector<SlotHost>& hosts) {
  for_each_placed(placement, hosts, [&](SlotHost& host, const model::PlacedHost& placed, int slots) {
    host.used += slots;
    if (placed.share) for_names(host, hosts, [&](SlotHost& each) { each.use.add(*placed.share); });
  });
}

void give_slots(const model::Placement& placement, std::vector<SlotHost>& hosts) {
  for_each_placed(placement, hosts, [&](SlotHost& host, const model::PlacedHost& placed, int slots) {
    host.used = std::max(0, host.used - slots);
    if (placed.share) for_names(host, hosts, [&](SlotHost& each) { each.use.remove(*placed.share); });
  });
}

std::string why_not(const JobNeed& need, std::span<const SlotHost> hosts) {
  for (const model::HostSpec& wanted : need.request.hosts) {
    const bool is_known =
        std::ranges::any_of(hosts, [&](const SlotHost& host) { return host.host.name == wanted.name; });
    if (!is_known) return fmt::format("needs host {}, which launcherd's list does not have any more", wanted.name);
  }
  if (!need.places.empty()) {
    const std::string why = why_no_places(need, hosts);
    return why.empty() ? why_no_share(need, hosts) : why;
  }
  const auto usable = in_order(need, hosts);
  if (is_oversubscribing(need, hosts)) {
    if (std::ranges::any_of(usable, [&](const SlotHost* host) { return waits_for_news(need, *host); })) {
      return why_no_share(need, hosts);
    }
    return fmt::format("needs all slots of {} for its {} ranks{}", names(usable), need.ranks(), closed_remark(usable));
  }
  const long room = total_room(need, hosts, Room::kSlots);
  if (room >= need.ranks()) return why_no_share(need, hosts);
  return fmt::format("needs {}, {} {} free on {}{}", slot_count(need.ranks()), room, room == 1 ? "is" : "are",
                     names(usable), closed_remark(usable));
}

}  // namespace muster::launcherd
