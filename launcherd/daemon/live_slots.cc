#include "launcherd/daemon/live_slots.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace muster::launcherd::inline daemon {
namespace {

// Returns what both shares have. The devices of `share` come first, so that ranks that run keep theirs.
model::HostShare joined(model::HostShare share, const model::HostShare& further) {
  std::vector<int> cpus;
  // A share without CPUs may use any.
  if (!share.cpus.empty() && !further.cpus.empty()) {
    std::ranges::set_union(share.cpus, further.cpus, std::back_inserter(cpus));
  }
  share.cpus = std::move(cpus);
  for (const std::string& id : further.devices) {
    if (std::ranges::find(share.devices, id) == share.devices.end()) share.devices.push_back(id);
  }
  share.is_open = share.is_open && further.is_open;
  share.is_crowded = share.is_crowded || further.is_crowded;
  return share;
}

int take_from(std::vector<model::HostSpec>& offers, const std::string& name, int most) {
  const auto offer = std::ranges::find(offers, name, &model::HostSpec::name);
  if (offer == offers.end()) return 0;
  const int taken = std::min(most, offer->slots.value_or(0));
  offer->slots = offer->slots.value_or(0) - taken;
  return taken;
}

}  // namespace

LiveSlots::LiveSlots(const model::Placement& start, bool keeps_failed) : keeps_failed_(keeps_failed) {
  for (const model::PlacedHost& placed : start.hosts) {
    const int ranks = static_cast<int>(placed.ranks.size());
    hosts_.push_back({.spec = placed.host,
                      .slots = placed.slots,
                      .listed = ranks,
                      .sent = ranks,
                      .processes = ranks,
                      .shared_slots = ranks,
                      .share = placed.share});
  }
}

int LiveSlots::Host::held() const {
  return std::max({listed, sent, processes, has_agent ? 1 : 0});
}

void LiveSlots::forget_free_hosts() {
  std::erase_if(hosts_, [](const Host& host) { return host.held() == 0; });
}

const LiveSlots::Host* LiveSlots::find(const std::string& name) const {
  const auto found = std::ranges::find_if(hosts_, [&](const Host& host) { return host.spec.name == name; });
  return found == hosts_.end() ? nullptr : &*found;
}

LiveSlots::Host* LiveSlots::find(const std::string& name) {
  return const_cast<Host*>(std::as_const(*this).find(name));
}

int LiveSlots::size() const {
  int slots = 0;
  for (const Host& host : hosts_) slots += host.listed;
  return slots;
}

std::vector<model::HostSpec> LiveSlots::listed() const {
  std::vector<model::HostSpec> listed;
  for (const Host& host : hosts_) {
    if (host.listed == 0) continue;
    listed.push_back(host.spec);
    listed.back().slots = host.listed;
  }
  return listed;
}

std::vector<model::HostSpec> LiveSlots::listed_and_sent() const {
  std::vector<model::HostSpec> list;
  for (const Host& host : hosts_) {
    const int slots = std::min(host.listed, host.sent);
    if (slots == 0) continue;
    list.push_back(host.spec);
    list.back().slots = slots;
  }
  return list;
}

int LiveSlots::usable() const {
  int slots = 0;
  for (const Host& host : hosts_) slots += is_excluded(host.spec.name) ? 0 : host.listed;
  return slots;
}

int LiveSlots::listed_on(const std::string& name) const {
  const Host* const host = find(name);
  return host == nullptr ? 0 : host->listed;
}

model::Placement LiveSlots::held() const {
  model::Placement placement;
  for (const Host& host : hosts_) {
    const int held = host.held();
    if (held == 0) continue;
    const int index = static_cast<int>(placement.hosts.size());
    model::PlacedHost& placed = placement.hosts.emplace_back();
    placed.host = host.spec;
    placed.slots = host.slots;
    placed.share = host.share;
    for (int local = 0; local < held; ++local) {
      placed.ranks.push_back({.rank = placement.size++,
                              .local_rank = local,
                              .local_size = held,
                              .cross_rank = 0,
                              .cross_size = 1,
                              .host_index = index});
    }
  }
  return placement;
}

bool LiveSlots::is_excluded(const std::string& host) const {
  return std::ranges::find(excluded_, host) != excluded_.end();
}

std::optional<int> LiveSlots::limit_on(const std::string& name) const {
  const Host* const host = find(name);
  return host == nullptr ? std::nullopt : host->limit;
}

void LiveSlots::add(const model::HostSpec& spec, const std::optional<model::HostShare>& further) {
  Host* host = find(spec.name);
  if (host == nullptr) host = &hosts_.emplace_back(Host{.spec = spec});
  const int slots = spec.slots.value_or(1);
  // A slot that a process is leaving counts once when it is listed again: the next process there waits for the slot.
  host->shared_slots = std::max(host->shared_slots, host->held()) + slots;
  host->listed += slots;
  host->slots = std::max(host->slots, host->held());
  host->limit.reset();
  if (host->share && further) {
    host->share = joined(*std::move(host->share), *further);
  } else if (!host->share) {
    host->share = further;
  }
}

void LiveSlots::shrink(int ranks) {
  int surplus = size() - ranks;
  for (auto host = hosts_.rbegin(); host != hosts_.rend() && surplus > 0; ++host) {
    const int taken = std::min(surplus, host->listed);
    host->listed -= taken;
    surplus -= taken;
  }
  forget_free_hosts();
}

void LiveSlots::shrink_excluded(int ranks) {
  int surplus = size() - ranks;
  for (Host& host : hosts_) {
    if (surplus <= 0 || !is_excluded(host.spec.name)) continue;
    const int taken = std::min(surplus, host.listed);
    host.listed -= taken;
    surplus -= taken;
  }
}

void LiveSlots::drop_unsent() {
  for (Host& host : hosts_) host.listed = std::min(host.listed, host.sent);
  forget_free_hosts();
}

void LiveSlots::mark_sent(const std::vector<model::HostSpec>& list) {
  for (Host& host : hosts_) {
    const auto sent = std::ranges::find(list, host.spec.name, &model::HostSpec::name);
    host.sent = sent == list.end() ? 0 : sent->slots.value_or(1);
  }
  forget_free_hosts();
}

bool LiveSlots::update(const LiveHosts& report) {
  const int listed_before = size();
  excluded_.clear();
  for (const LiveHost& each : report.hosts) {
    if (each.is_excluded) excluded_.push_back(each.name);
  }
  for (Host& host : hosts_) {
    const auto found = std::ranges::find(report.hosts, host.spec.name, &LiveHost::name);
    const LiveHost now = found == report.hosts.end() ? LiveHost() : *found;
    // The processes of a lost host count as ended in the report, but they may run until its agent has ended them.
    const bool may_have_more = now.is_excluded && now.has_agent;
    host.processes = may_have_more ? std::max(host.processes, now.processes) : now.processes;
    host.has_agent = now.has_agent;
    // The job never uses the host again, so it needs no shorter list for that.
    if (now.is_excluded && !keeps_failed_) host.listed = host.sent = 0;
    // The limit is for the list that the job has. Slots that it does not have yet may lift the limit.
    if (!now.limit || host.listed > host.sent) continue;
    host.limit = now.limit;
    host.listed = std::min(host.listed, *now.limit);
  }
  forget_free_hosts();
  return size() != listed_before;
}

std::optional<model::HostShare> LiveSlots::share_on(const std::string& name) const {
  const Host* const host = find(name);
  return host == nullptr ? std::nullopt : host->share;
}

void LiveSlots::set_share(const std::string& name, const std::optional<model::HostShare>& share) {
  Host* const host = find(name);
  if (host == nullptr) return;
  host->share = share;
  host->shared_slots = host->held();
}

void LiveSlots::narrow(const std::vector<model::BoundRank>& bound) {
  for (Host& host : hosts_) {
    const int held = host.held();
    if (!host.share || held >= host.shared_slots || held != host.processes) continue;
    model::HostShare used{.is_open = host.share->is_open, .is_crowded = host.share->is_crowded};
    int ranks = 0;
    bool is_bound = true;
    for (const model::BoundRank& rank : bound) {
      if (rank.host != host.spec.name) continue;
      ++ranks;
      is_bound = is_bound && !rank.cpus.empty();
      used.cpus.insert(used.cpus.end(), rank.cpus.begin(), rank.cpus.end());
      for (const std::string& id : host.share->devices) {
        const bool is_used = std::ranges::find(rank.devices, id) != rank.devices.end();
        const bool is_new = std::ranges::find(used.devices, id) == used.devices.end();
        if (is_used && is_new) used.devices.push_back(id);
      }
    }
    if (ranks != held) continue;  // a generation is about to begin
    std::ranges::sort(used.cpus);
    used.cpus.erase(std::unique(used.cpus.begin(), used.cpus.end()), used.cpus.end());
    if (!is_bound || host.share->cpus.empty()) used.cpus = host.share->cpus;
    host.share = std::move(used);
    host.shared_slots = held;
  }
}

std::vector<model::HostSpec> choose_slots(const LiveSlots& own, int slots, const std::vector<model::HostSpec>& first,
                                          std::vector<model::HostSpec> offers) {
  std::erase_if(offers, [&](const model::HostSpec& offer) { return own.is_excluded(offer.name); });
  std::vector<model::HostSpec> chosen;
  const auto choose = [&](const model::HostSpec& host, int most) {
    const int taken = take_from(offers, host.name, std::min(slots, most));
    if (taken == 0) return;
    slots -= taken;
    const auto known = std::ranges::find(chosen, host.name, &model::HostSpec::name);
    if (known != chosen.end()) {
      known->slots = *known->slots + taken;
    } else {
      chosen.push_back(*std::ranges::find(offers, host.name, &model::HostSpec::name));
      chosen.back().slots = taken;
    }
  };
  const auto most_on = [&](const model::HostSpec& host) {
    const auto limit = own.limit_on(host.name);
    return limit ? std::max(0, *limit - own.listed_on(host.name)) : slots;
  };
  for (const model::HostSpec& host : first) choose(host, host.slots.value_or(slots));
  for (const model::HostSpec& host : own.listed()) choose(host, most_on(host));
  for (const model::HostSpec& host : std::vector(offers)) choose(host, most_on(host));
  return chosen;
}

}  // namespace muster::launcherd::daemon
