// Read it in this order: least_size, without_last, Trial, give_back; then growth_turns.
#include "launcherd/queue/give_back.h"

#include <algorithm>
#include <tuple>

#include "launcherd/queue/fit.h"

namespace muster::launcherd::inline queue {
namespace {

int ranks_on(const model::PlacedHost& host) {
  return static_cast<int>(host.ranks.size());
}

// Returns the least number of ranks that the job may have. Its last ranks go first, so its first hosts stay.
int least_size(const SizedJob& job) {
  int least = 1;
  const auto& hosts = job.placement.hosts;
  for (std::size_t i = 0; i + 1 < static_cast<std::size_t>(job.min_hosts) && i < hosts.size(); ++i) {
    least += ranks_on(hosts[i]);
  }
  return std::min(std::max(job.min_ranks, least), job.placement.size);
}

// Returns what the job keeps, as GenerationPlanner trims it. A host that keeps fewer ranks gets another share later. It
// is assumed to keep its part of the GPUs.
model::Placement without_last(model::Placement placement, int size) {
  for (int surplus = placement.size - size; surplus > 0 && !placement.hosts.empty();) {
    model::PlacedHost& last = placement.hosts.back();
    const int taken = std::min(surplus, ranks_on(last));
    const std::size_t before = last.ranks.size();
    last.ranks.resize(last.ranks.size() - static_cast<std::size_t>(taken));
    if (last.share) {
      auto& devices = last.share->devices;
      devices.resize((devices.size() * last.ranks.size() + before - 1) / before);
      last.share->cpus.clear();
    }
    surplus -= taken;
    if (last.ranks.empty()) placement.hosts.pop_back();
  }
  placement.size = size;
  return placement;
}

void shrink(const model::Placement& placement, int size, std::vector<SlotHost>& hosts) {
  release_slots(placement, hosts);
  acquire_slots(without_last(placement, size), hosts);
}

// A candidate and the size that it is tried with.
struct Candidate {
  const SizedJob* job;
  int size;
};

std::vector<Candidate> candidates_for(const WaitingJob& waiting, std::span<const SizedJob> jobs) {
  std::vector<Candidate> candidates;
  for (const SizedJob& job : jobs) {
    const bool is_free_to_change = !job.changes_to && !job.waits_for_hosts && model::gives_back(job.policy);
    if (!is_free_to_change || job.priority >= waiting.priority || least_size(job) >= job.placement.size) continue;
    candidates.push_back({.job = &job, .size = job.placement.size});
  }
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tuple(a.job->priority, b.job->number) < std::tuple(b.job->priority, a.job->number);
  });
  return candidates;
}

bool fits(const WaitingJob& waiting, std::span<const Candidate> candidates, std::vector<SlotHost> hosts) {
  for (const Candidate& each : candidates) {
    if (each.size < each.job->placement.size) shrink(each.job->placement, each.size, hosts);
  }
  return fit(waiting.need, hosts).has_value();
}

// Returns the least number in [low, high] for which `is_enough` is true. It is true for `high`, and for all numbers
// above one for which it is true.
template <typename IsEnough>
std::size_t least_enough(std::size_t low, std::size_t high, const IsEnough& is_enough) {
  while (low < high) {
    const std::size_t middle = low + (high - low) / 2;
    if (is_enough(middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return high;
}

}  // namespace

GiveBack give_back(const WaitingJob& waiting, std::span<const SizedJob> jobs, const std::vector<SlotHost>& hosts) {
  std::vector<SlotHost> soon = hosts;
  bool is_any_changing = false;
  for (const SizedJob& job : jobs) {
    if (!job.changes_to || *job.changes_to >= job.placement.size) continue;
    shrink(job.placement, *job.changes_to, soon);
    is_any_changing = true;
  }
  std::vector<Candidate> all = candidates_for(waiting, jobs);
  if (!is_any_changing && all.empty()) return {};
  if (fits(waiting, {}, soon)) return {.is_enough = true};
  const auto first_ones_at_least = [&](std::size_t count) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].size = i < count ? least_size(*all[i].job) : all[i].job->placement.size;
    }
  };
  const auto is_enough = [&](std::size_t count) {
    first_ones_at_least(count);
    return fits(waiting, all, soon);
  };
  if (!is_enough(all.size())) return {};
  const std::size_t used = least_enough(0, all.size(), is_enough);
  first_ones_at_least(used);
  // Let each keep what the waiting job does not need, the one of the highest priority first.
  for (std::size_t i = used; i-- > 0;) {
    const int from = all[i].job->placement.size;
    const auto gives = static_cast<std::size_t>(from - all[i].size);
    const std::size_t needed = least_enough(0, gives, [&](std::size_t given) {
      all[i].size = from - static_cast<int>(given);
      return fits(waiting, all, soon);
    });
    all[i].size = from - static_cast<int>(needed);
  }
  GiveBack result{.is_enough = true};
  for (const Candidate& each : all) {
    if (each.size == each.job->placement.size) continue;
    result.changes.push_back({.id = each.job->id, .from = each.job->placement.size, .to = each.size});
  }
  return result;
}

GrowthTurns growth_turns(std::span<const SizedJob> jobs, base::MonotonicTime quiet_since, base::MonotonicTime now) {
  GrowthTurns turns;
  std::vector<const SizedJob*> due;
  for (const SizedJob& job : jobs) {
    if (job.changes_to || job.waits_for_hosts) return {};  // the end of this change asks again
    if (!model::grows(job.policy) || job.placement.size >= job.max_ranks.value_or(model::kMaxRanks)) continue;
    const base::MonotonicTime at = std::max(quiet_since, job.changed_at) + kQuietBeforeGrowth;
    if (at <= now) {
      due.push_back(&job);
    } else {
      turns.later = std::min(at, turns.later.value_or(at));
    }
  }
  std::ranges::sort(due, [](const SizedJob* a, const SizedJob* b) {
    return std::tuple(-std::int64_t{a->priority}, a->number) < std::tuple(-std::int64_t{b->priority}, b->number);
  });
  for (const SizedJob* job : due) turns.now.push_back(job->id);
  return turns;
}

}  // namespace muster::launcherd::queue
