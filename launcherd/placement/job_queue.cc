#include "launcherd/placement/job_queue.h"

#include <algorithm>
#include <numeric>

namespace muster::launcherd {
namespace {

long free_slots(const std::vector<SlotHost>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0L,
                         [](long sum, const SlotHost& host) { return sum + host.free(); });
}

// As others see the hosts when what is free on those that `need` may use is kept for it.
void keep_slots(const JobNeed& need, std::vector<SlotHost>& hosts) {
  for (SlotHost& host : hosts) {
    if (may_use_by_any_name(need, host, hosts)) host.used = host.slots;
  }
}

bool touches(const model::Placement& placement, const JobNeed& need, const std::vector<SlotHost>& hosts) {
  return std::ranges::any_of(placement.hosts, [&](const model::PlacedHost& placed) {
    if (may_use(need, SlotHost{.host = placed.host})) return true;
    const auto there = std::ranges::find(hosts, placed.host.name,
                                         [](const SlotHost& host) -> const std::string& { return host.host.name; });
    return there != hosts.end() && may_use_by_any_name(need, *there, hosts);
  });
}

}  // namespace

void JobQueue::add(const base::JobId& id, int priority, std::uint64_t number, JobNeed need) {
  const Key key{-std::int64_t{priority}, number};
  keys_.insert_or_assign(id, key);
  entries_.insert_or_assign(key, Entry{.id = id, .need = std::move(need)});
}

bool JobQueue::remove(const base::JobId& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return false;
  entries_.erase(found->second);
  keys_.erase(found);
  return true;
}

std::vector<JobQueue::Start> JobQueue::start(std::vector<SlotHost>& hosts) {
  std::vector<Start> started;
  std::vector<SlotHost> open = hosts;  // without what is kept for the head
  Entry* head = nullptr;
  const Entry* failed = nullptr;  // the last one; what is left only becomes less
  const Entry* never = nullptr;   // the last one that would not start if nothing ran
  std::vector<SlotHost> idle;
  for (auto at = entries_.begin(); at != entries_.end();) {
    const long free = free_slots(open);
    if (free == 0) break;
    Entry& entry = at->second;
    // Whoever oversubscribes has more ranks than slots.
    const bool is_hopeless = (entry.need.ranks() > free && !entry.need.request.oversubscribe) ||
                             (failed != nullptr && entry.need.is_like(failed->need));
    auto placement = is_hopeless ? std::nullopt : fit(entry.need, open);
    if (!placement) {
      failed = &entry;
      ++at;
      if (head != nullptr || (never != nullptr && entry.need.is_like(never->need))) continue;
      if (idle.empty()) idle = when_idle(hosts);
      if (!fit(entry.need, idle)) {
        never = &entry;
        continue;
      }
      head = &entry;
      if (head->overtaken >= kMostOvertakes) keep_slots(head->need, open);
      continue;
    }
    take_slots(*placement, hosts);
    take_slots(*placement, open);
    if (head != nullptr && touches(*placement, head->need, hosts) && ++head->overtaken >= kMostOvertakes) {
      keep_slots(head->need, open);
    }
    const base::JobId id = entry.id;
    started.push_back({id, std::move(*placement), std::move(entry.need)});
    keys_.erase(id);
    at = entries_.erase(at);
  }
  return started;
}

std::vector<model::HostSpec> JobQueue::hosts_to_ask(const std::vector<SlotHost>& hosts) const {
  std::vector<const SlotHost*> unknown;
  for (const SlotHost& host : hosts) {
    if (!host.is_known() && host.is_open()) unknown.push_back(&host);
  }
  std::vector<model::HostSpec> asked;
  for (const auto& [key, entry] : entries_) {
    if (unknown.empty()) break;
    std::erase_if(unknown, [&, &need = entry.need](const SlotHost* host) {
      if (!waits_for_news(need, *host)) return false;
      asked.push_back(host->host);
      return true;
    });
  }
  return asked;
}

const JobQueue::Entry* JobQueue::head(const std::vector<SlotHost>& hosts, const std::vector<SlotHost>& idle) const {
  const auto found = std::ranges::find_if(
      entries_, [&](const auto& each) { return !fit(each.second.need, hosts) && fit(each.second.need, idle); });
  return found == entries_.end() ? nullptr : &found->second;
}

std::string JobQueue::reason(const base::JobId& id, const std::vector<SlotHost>& hosts) const {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return "";
  const Entry& entry = entries_.at(found->second);
  if (!fit(entry.need, hosts)) return why_not(entry.need, hosts);
  const Entry* const first = head(hosts, when_idle(hosts));
  if (first == nullptr || first == &entry) return "waits for its turn";
  return fmt::format("the free slots are kept for job {}, which comes before it: that {}", first->id.str(),
                     why_not(first->need, hosts));
}

}  // namespace muster::launcherd
