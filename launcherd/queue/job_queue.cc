// The whole of JobQueue, and the reasons that users see.
// Read it in this order: add, start, keep_slots, hosts_to_ask, head; then Reasons.
#include "launcherd/queue/job_queue.h"

#include <algorithm>
#include <numeric>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/placed_hosts.h"
#include "launcherd/queue/room_bound.h"
#include "launcherd/queue/why_not.h"

namespace muster::launcherd::inline queue {
namespace {

long free_slots(const std::vector<SlotHost>& hosts) {
  return std::accumulate(hosts.begin(), hosts.end(), 0L,
                         [](long sum, const SlotHost& host) { return sum + host.free(); });
}

// Counts all free slots of the hosts that `need` may use as used, which reserves them for that job.
void keep_slots(const JobNeed& need, std::vector<SlotHost>& hosts) {
  for (SlotHost& host : hosts) {
    if (may_use_by_any_name(need, host, hosts)) host.used = host.slots;
  }
}

bool touches(const model::Placement& placement, const JobNeed& need, const std::vector<SlotHost>& hosts) {
  bool touches = false;
  for_each_placed(placement, hosts, [&](const SlotHost& host, const model::PlacedHost&, int) {
    touches = touches || may_use_by_any_name(need, host, hosts);
  });
  return touches;
}

}  // namespace

void JobQueue::add(const base::JobId& id, Place place, JobNeed need) {
  if (!is_fair_) place.group.clear();
  const Key key = {-std::int64_t{place.priority}, place.number};
  auto kind = std::ranges::find_if(
      kinds_, [&](const auto& each) { return each.second.group == place.group && each.second.need.is_like(need); });
  if (kind == kinds_.end()) {
    kind = kinds_.emplace(next_kind_++, Kind{.need = std::move(need), .group = std::move(place.group), .waiting = {}})
               .first;
  }
  kind->second.waiting.insert(key);
  keys_.insert_or_assign(id, key);
  entries_.insert_or_assign(key, Entry{.id = id, .kind = kind->first, .copies = place.copies});
}

JobQueue::Place JobQueue::place_of(const Key& key, const Entry& entry) const {
  return {.priority = static_cast<int>(-key.first),
          .number = key.second,
          .group = kinds_.at(entry.kind).group,
          .copies = entry.copies};
}

bool JobQueue::set_priority(const base::JobId& id, int priority) {
  if (const auto held = held_.find(id); held != held_.end()) {
    held->second.place.priority = priority;
    return true;
  }
  const auto found = keys_.find(id);
  if (found == keys_.end()) return false;
  const Entry& entry = entries_.at(found->second);
  Place place = place_of(found->second, entry);
  place.priority = priority;
  JobNeed need = kinds_.at(entry.kind).need;
  forget(found->second);
  add(id, std::move(place), std::move(need));
  return true;
}

bool JobQueue::set_copies(const base::JobId& id, std::int64_t copies) {
  if (const auto held = held_.find(id); held != held_.end()) {
    held->second.place.copies = copies;
    return true;
  }
  const auto found = keys_.find(id);
  if (found == keys_.end()) return false;
  entries_.at(found->second).copies = copies;
  return true;
}

void JobQueue::count_use(const std::string& group, std::int64_t slots) {
  if (!is_fair_) return;
  const auto found = used_.try_emplace(group, 0).first;
  found->second += slots;
  if (found->second == 0) used_.erase(found);
}

void JobQueue::hold(const base::JobId& id) {
  const auto found = keys_.find(id);
  if (found == keys_.end()) return;
  const Key key = found->second;
  const Entry& entry = entries_.at(key);
  held_.emplace(id, Held{.place = place_of(key, entry), .need = kinds_.at(entry.kind).need});
  forget(key);
}

void JobQueue::release(const base::JobId& id) {
  auto found = held_.extract(id);
  if (!found.empty()) add(id, std::move(found.mapped().place), std::move(found.mapped().need));
}

bool JobQueue::remove(const base::JobId& id) {
  if (held_.erase(id) > 0) return true;
  const auto found = keys_.find(id);
  if (found == keys_.end()) return false;
  forget(found->second);
  return true;
}

void JobQueue::forget(const Key& key) {
  const auto entry = entries_.find(key);
  const auto kind = kinds_.find(entry->second.kind);
  kind->second.waiting.erase(key);
  if (kind->second.waiting.empty()) kinds_.erase(kind);
  keys_.erase(entry->second.id);
  entries_.erase(entry);
}

JobQueue::Turn JobQueue::turn_of(const Kind& kind) const {
  const auto [minus_priority, number] = *kind.waiting.begin();
  const auto used = used_.find(kind.group);
  return {minus_priority, used == used_.end() ? 0 : used->second, number};
}

std::set<std::pair<JobQueue::Turn, int>> JobQueue::turns() const {
  std::set<std::pair<Turn, int>> turns;
  for (const auto& [number, kind] : kinds_) turns.emplace(turn_of(kind), number);
  return turns;
}

void JobQueue::sort_again(const std::string& group, std::set<std::pair<Turn, int>>& turns) const {
  if (!is_fair_) return;
  std::vector<int> kinds;
  for (const auto& [turn, number] : turns) {
    if (kinds_.at(number).group == group) kinds.push_back(number);
  }
  std::erase_if(turns, [&](const auto& each) { return kinds_.at(each.second).group == group; });
  for (const int number : kinds) turns.emplace(turn_of(kinds_.at(number)), number);
}

std::vector<JobQueue::Start> JobQueue::start(std::vector<SlotHost>& hosts) {
  std::vector<Start> started;
  std::vector<SlotHost> open = hosts;  // without the slots that are reserved for the head
  Entry* head = nullptr;
  RoomBound room(open);
  std::vector<SlotHost> idle;
  std::optional<RoomBound> idle_room;
  DeviceLists devices;
  std::set<std::pair<Turn, int>> next = turns();
  for (long free = free_slots(open); free > 0 && !next.empty(); free = free_slots(open)) {
    const int number = next.begin()->second;
    next.erase(next.begin());
    const Key key = *kinds_.at(number).waiting.begin();
    Entry& entry = entries_.at(key);
    const JobNeed& need = kinds_.at(number).need;
    // Jobs that oversubscribe may have more ranks than slots.
    const bool is_hopeless = need.ranks() > free && !need.request.oversubscribe;
    auto placement = is_hopeless || !room.may_fit(need) ? std::nullopt : fit(need, open, &devices);
    if (!placement) {  // no other job of its kind fits either, because the room only shrinks
      if (head != nullptr) continue;
      if (!idle_room) {
        idle = when_idle(hosts);
        idle_room.emplace(idle);
      }
      if (!idle_room->may_fit(need) || !fit(need, idle, &devices)) continue;
      head = &entry;
      if (head->overtakes >= kMostOvertakes) keep_slots(need, open);
      continue;
    }
    acquire_slots(*placement, hosts);
    acquire_slots(*placement, open);
    if (head != nullptr && touches(*placement, kinds_.at(head->kind).need, hosts) &&
        ++head->overtakes >= kMostOvertakes) {
      keep_slots(kinds_.at(head->kind).need, open);
    }
    const std::string group = kinds_.at(number).group;
    count_use(group, placement->size);
    started.push_back({entry.id, std::move(*placement), need});
    if (--entry.copies == 0) forget(key);
    sort_again(group, next);
    if (const auto kind = kinds_.find(number); kind != kinds_.end()) next.emplace(turn_of(kind->second), number);
  }
  return started;
}

std::vector<model::HostSpec> JobQueue::hosts_to_ask(const std::vector<SlotHost>& hosts) const {
  std::vector<const SlotHost*> unknown;
  for (const SlotHost& host : hosts) {
    if (!host.is_known() && host.is_open()) unknown.push_back(&host);
  }
  std::vector<model::HostSpec> unreported;
  for (const auto& [number, kind] : kinds_) {
    if (unknown.empty()) break;
    std::erase_if(unknown, [&, &need = kind.need](const SlotHost* host) {
      if (!awaits_host_facts(need, *host)) return false;
      unreported.push_back(host->host);
      return true;
    });
  }
  return unreported;
}

std::optional<WaitingJob> JobQueue::head(const std::vector<SlotHost>& hosts) const {
  const Entry* const first = Reasons(*this, hosts).head();
  if (first == nullptr) return std::nullopt;
  const auto priority = static_cast<int>(-keys_.at(first->id).first);
  return WaitingJob{.id = first->id, .priority = priority, .need = kinds_.at(first->kind).need};
}

void JobQueue::reserve_for(const base::JobId& id) {
  const auto found = keys_.find(id);
  if (found != keys_.end()) entries_.at(found->second).overtakes = kMostOvertakes;
}

std::string JobQueue::reason(const base::JobId& id, const std::vector<SlotHost>& hosts) const {
  return Reasons(*this, hosts).of(id);
}

std::string JobQueue::Reasons::of(const base::JobId& id) {
  const auto found = queue_.keys_.find(id);
  if (found == queue_.keys_.end()) return "";
  const Entry& entry = queue_.entries_.at(found->second);
  if (const std::string& why = of_kind(entry.kind); !why.empty()) return why;
  const Entry* const first = head();
  if (first == nullptr || first == &entry) return "waits for its turn";
  return fmt::format("the free slots are reserved for job {}, which is first in the queue and {}", first->id.str(),
                     of_kind(first->kind));
}

const std::string& JobQueue::Reasons::of_kind(int kind) {
  const auto [entry, is_new] = kinds_.try_emplace(kind);
  const JobNeed& need = queue_.kinds_.at(kind).need;
  if (is_new && !fit(need, hosts_, &devices_)) entry->second = why_not(need, hosts_, &devices_);
  return entry->second;
}

const JobQueue::Entry* JobQueue::Reasons::head() {
  if (head_) return *head_;
  head_ = nullptr;
  const std::vector<SlotHost> idle = when_idle(hosts_);
  for (const auto& [turn, kind] : queue_.turns()) {
    if (of_kind(kind).empty() || !fit(queue_.kinds_.at(kind).need, idle, &devices_)) continue;
    head_ = &queue_.entries_.at(*queue_.kinds_.at(kind).waiting.begin());
    break;
  }
  return *head_;
}

}  // namespace muster::launcherd::queue
