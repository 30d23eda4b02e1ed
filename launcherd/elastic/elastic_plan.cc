#include "launcherd/elastic/elastic_plan.h"

#include <algorithm>

namespace muster::launcherd::inline elastic {

base::Result<ElasticPlan> make_elastic_plan(std::span<const ElasticHost> hosts, int min_np, std::optional<int> max_np) {
  std::vector<ElasticHost> filled;  // the slots that the plan uses of each host
  int size = 0;
  for (const ElasticHost& host : hosts) {
    const int used = max_np ? std::min(host.slots, *max_np - size) : host.slots;
    if (used <= 0) continue;
    filled.push_back({host.name, used});
    size += used;
  }
  if (size < min_np || size == 0) {
    return base::resource_exhausted("the hosts have {} slots; the job needs {}", size, std::max(min_np, 1));
  }
  std::vector<int> cross_sizes;  // for each local rank, the hosts that have it
  for (const ElasticHost& host : filled) {
    if (cross_sizes.size() < static_cast<std::size_t>(host.slots)) {
      cross_sizes.resize(static_cast<std::size_t>(host.slots));
    }
    for (int local = 0; local < host.slots; ++local) ++cross_sizes[static_cast<std::size_t>(local)];
  }
  ElasticPlan plan;
  plan.reserve(static_cast<std::size_t>(size));
  std::vector<int> cross_ranks(cross_sizes.size());
  for (const ElasticHost& host : filled) {
    for (int local = 0; local < host.slots; ++local) {
      const auto at = static_cast<std::size_t>(local);
      const auto rank = static_cast<int>(plan.size());
      plan.push_back({{host.name, local}, {rank, size, local, host.slots, cross_ranks[at]++, cross_sizes[at]}});
    }
  }
  return plan;
}

const PlannedSlot* find_slot(const ElasticPlan& plan, const ElasticSlot& slot) {
  const auto found = std::ranges::find(plan, slot, &PlannedSlot::slot);
  return found == plan.end() ? nullptr : &*found;
}

SlotIndex::SlotIndex(const ElasticPlan& plan) : end_(plan.data() + plan.size()) {
  for (const PlannedSlot& planned : plan) first_of_.emplace(planned.slot.host, &planned);
}

// All slots of a host are neighbours.
const PlannedSlot* SlotIndex::find(const ElasticSlot& slot) const {
  const auto first = first_of_.find(slot.host);
  if (first == first_of_.end()) return nullptr;
  for (const PlannedSlot* each = first->second; each != end_ && each->slot.host == slot.host; ++each) {
    if (each->slot == slot) return each;
  }
  return nullptr;
}

std::string format_slot_plan(const std::optional<SlotPlan>& plan) {
  if (!plan) return "-1,-1,-1,-1,-1,-1";
  return fmt::format("{},{},{},{},{},{}", plan->rank, plan->size, plan->local_rank, plan->local_size, plan->cross_rank,
                     plan->cross_size);
}

std::string format_slot(const ElasticSlot& slot) {
  return fmt::format("{}[{}]", slot.host, slot.local_rank);
}

}  // namespace muster::launcherd::elastic
