// The whole of HostTable.
// Read it in this order: replace, count (used slots), learn and join_names (hosts with several names), set_gpus,
// message_of.
#include "launcherd/daemon/host_table.h"

#include <algorithm>
#include <numeric>

#include "base/strings.h"

namespace muster::launcherd::inline daemon {

void HostTable::replace(const std::vector<model::HostSpec>& list) {
  hosts_.clear();
  index_.clear();
  for (const model::HostSpec& entry : list) {
    const auto [at, is_new] = index_.try_emplace(entry.name, hosts_.size());
    if (is_new) hosts_.push_back({.host = entry});
    SlotHost& host = hosts_[at->second];
    host.source = is_new && !entry.slots ? SlotSource::kAwaited : SlotSource::kList;
    host.slots = std::min(host.slots + entry.slots.value_or(1), model::kMaxSlotsPerHost);
  }
  for (SlotHost& host : hosts_) {
    const auto counted = gpu_slots_.find(host.host.name);
    const bool is_counted = host.source == SlotSource::kAwaited && counted != gpu_slots_.end();
    if (is_counted) host.source = SlotSource::kAgent;
    set_slots(host, is_counted ? counted->second : host.slots);
    host.used = used_[host.host.name];
    host.is_drained = drains_.contains(host.host.name);
    host.is_shared = true;
    if (const auto known = shapes_.find(host.host.name); known != shapes_.end()) host.shape = known->second;
  }
  for (const SlotHost& host : hosts_) join_names(host.host.name);
}

int HostTable::total_slots() const {
  return std::accumulate(hosts_.begin(), hosts_.end(), 0,
                         [](int sum, const SlotHost& host) { return sum + host.slots; });
}

SlotHost* HostTable::known(const std::string& name) {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &hosts_[found->second];
}

base::Result<const SlotHost*> HostTable::find(const std::string& name) const {
  const auto found = index_.find(name);
  if (found != index_.end()) return &hosts_[found->second];
  return base::not_found("{} is not one of launcherd's hosts: muster hosts lists them",
                         name.empty() ? "an empty name" : base::printable(name.substr(0, 64)));
}

base::Result<StoredHost> HostTable::drained(const std::string& name, const std::string& reason,
                                            base::WallTime now) const {
  MUSTER_ASSIGN_OR_RETURN(const SlotHost* const host, find(name));
  return StoredHost{.name = name, .slots = host->slots, .drained = true, .reason = reason, .changed = now};
}

base::Result<StoredHost> HostTable::resumed(const std::string& name, base::WallTime now) const {
  MUSTER_ASSIGN_OR_RETURN(const SlotHost* const host, find(name));
  return StoredHost{.name = name, .slots = host->slots, .drained = false, .changed = now};
}

void HostTable::apply(const StoredHost& stored) {
  if (stored.drained) {
    drains_.insert_or_assign(stored.name, stored.reason);
  } else {
    drains_.erase(stored.name);
  }
  if (SlotHost* const host = known(stored.name)) host->is_drained = stored.drained;
}

void HostTable::set_slots(SlotHost& host, int slots) {
  host.slots = slots;
  host.host.slots = slots;
}

void HostTable::join_names(const std::string& name) {
  const auto identity = identities_.find(name);
  const std::set<std::string> names = identity == identities_.end() ? std::set{name} : names_.at(identity->second);
  std::vector<SlotHost*> listed;
  HostUse use = uses_[*names.begin()];
  for (const std::string& each : names) {
    if (SlotHost* const host = known(each)) listed.push_back(host);
    if (each == *names.begin()) continue;
    for (const model::HostShare& share : uses_[each].shares()) use.add(share);
  }
  int slots = 0;
  int gpus = 0;  // the maximum, because the agents of all names report the same GPUs
  for (const SlotHost* const host : listed) {
    if (host->source == SlotSource::kAgent) {
      gpus = std::max(gpus, host->slots);
    } else {
      slots += host->slots;
    }
  }
  for (SlotHost* const host : listed) {
    host->use = use;
    host->machine = listed.size() > 1 ? static_cast<int>(listed.front() - hosts_.data()) : SlotHost::kOneName;
    host->slots_of_names = slots + gpus;
  }
}

void HostTable::set_down(const std::string& name, bool is_down) {
  SlotHost* const host = known(name);
  if (host == nullptr) return;
  host->is_down = is_down;
  if (is_down && host->source == SlotSource::kAwaited) host->source = SlotSource::kUnknown;
}

std::vector<model::HostSpec> HostTable::awaited() const {
  std::vector<model::HostSpec> hosts;
  for (const SlotHost& host : hosts_) {
    if (host.source == SlotSource::kAwaited) hosts.push_back(host.host);
  }
  return hosts;
}

int HostTable::count_awaited() const {
  return static_cast<int>(std::ranges::count(hosts_, SlotSource::kAwaited, &SlotHost::source));
}

bool HostTable::set_gpus(const std::string& name, int gpus) {
  SlotHost* const host = known(name);
  if (host == nullptr || host->source == SlotSource::kList) return false;
  const int slots = std::clamp(gpus, 1, model::kMaxSlotsPerHost);
  const bool is_other = host->slots != slots || host->source != SlotSource::kAgent;
  gpu_slots_.insert_or_assign(name, slots);
  host->source = SlotSource::kAgent;
  set_slots(*host, slots);
  join_names(name);
  return is_other;
}

void HostTable::acquire(const model::Placement& placement) {
  count(placement, 1);
}

void HostTable::release(const model::Placement& placement) {
  count(placement, -1);
}

void HostTable::count(const model::Placement& placement, int sign) {
  for (const model::PlacedHost& placed : placement.hosts) {
    jobs_[placed.host.name] += sign;
    int& used = used_[placed.host.name];
    used += sign * static_cast<int>(placed.ranks.size());
    HostUse& use = uses_[placed.host.name];
    if (placed.share && sign > 0) use.add(*placed.share);
    if (placed.share && sign < 0) use.remove(*placed.share);
    if (SlotHost* const host = known(placed.host.name)) host->used = used;
    join_names(placed.host.name);
  }
}

void HostTable::acquire_share(const std::string& name, const model::HostShare& share) {
  uses_[name].add(share);
  join_names(name);
}

void HostTable::release_share(const std::string& name, const model::HostShare& share) {
  uses_[name].remove(share);
  join_names(name);
}

bool HostTable::learn(const std::string& name, const model::NodeShape& shape, const std::string& identity) {
  const bool is_other_host = identify(name, identity);
  std::shared_ptr<const model::NodeShape>& known_shape = shapes_[name];
  if (known_shape != nullptr && *known_shape == shape) return is_other_host;
  known_shape = std::make_shared<const model::NodeShape>(shape);
  if (SlotHost* const host = known(name)) host->shape = known_shape;
  return true;
}

bool HostTable::identify(const std::string& name, const std::string& identity) {
  const auto before = identities_.find(name);
  if (before == identities_.end() ? identity.empty() : before->second == identity) return false;
  if (before != identities_.end()) {
    const auto names = names_.find(before->second);
    names->second.erase(name);
    identities_.erase(before);
    if (names->second.empty()) {
      names_.erase(names);
    } else {
      join_names(*names->second.begin());
    }
  }
  if (!identity.empty()) {
    identities_.emplace(name, identity);
    names_[identity].insert(name);
  }
  join_names(name);
  return true;
}

std::vector<std::string> HostTable::other_names(const std::string& name) const {
  std::vector<std::string> others;
  const auto found = index_.find(name);
  if (found == index_.end() || hosts_[found->second].machine == SlotHost::kOneName) return others;
  for (const SlotHost& host : hosts_) {
    if (host.machine == hosts_[found->second].machine && host.host.name != name) others.push_back(host.host.name);
  }
  return others;
}

v1::LauncherHost HostTable::message_of(const SlotHost& host) const {
  v1::LauncherHost message;
  message.set_name(host.host.name);
  message.set_slots(host.slots);
  message.set_used_slots(std::min(host.used, host.slots));
  message.set_ranks(host.used);
  message.set_drained(host.is_drained);
  const auto drain = drains_.find(host.host.name);
  if (drain != drains_.end()) message.set_reason(drain->second);
  const auto jobs = jobs_.find(host.host.name);
  if (jobs != jobs_.end()) message.set_jobs(jobs->second);
  message.set_agent(v1::AGENT_STATE_NONE);
  return message;
}

base::Result<v1::LauncherHost> HostTable::message(const std::string& name) const {
  MUSTER_ASSIGN_OR_RETURN(const SlotHost* const host, find(name));
  return message_of(*host);
}

}  // namespace muster::launcherd::daemon
