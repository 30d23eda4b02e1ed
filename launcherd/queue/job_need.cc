#include "launcherd/queue/job_need.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "launcherd/queue/fit.h"
#include "launcherd/queue/why_not.h"
#include "model/gpu_mask.h"
#include "model/host_binding.h"

namespace muster::launcherd::inline queue {
namespace {

// Returns each name once. Repeated entries add their slots.
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
      return base::invalid_argument("spec.hosts: {} is not one of launcherd's hosts: muster hosts lists them",
                                    wanted.name);
    }
  }
  return base::ok_status();
}

// Returns the number of ranks for a job whose spec does not give one.
long ranks_left_to_hosts(const JobNeed& need, std::span<const SlotHost> hosts) {
  if (need.request.ranks_per_node > 0) {
    const auto count = need.request.hosts.empty() ? hosts.size() : need.request.hosts.size();
    return static_cast<long>(need.request.ranks_per_node) * static_cast<long>(count);
  }
  if (need.request.hosts.empty()) return 1;
  long slots = 0;
  for (const SlotHost& host : hosts) {
    const model::HostSpec* const wanted = need.wanted(host.host.name);
    if (wanted != nullptr) slots += wanted->slots.value_or(host.slots);
  }
  return slots;
}

// Returns the hosts as if all of them accepted jobs, with the slots that are known.
std::vector<SlotHost> as_if_open(std::span<const SlotHost> hosts) {
  std::vector<SlotHost> open(hosts.begin(), hosts.end());
  for (SlotHost& host : open) {
    host.is_drained = host.is_down = false;
    if (host.source == SlotSource::kAwaited) host.source = SlotSource::kUnknown;
  }
  return open;
}

// INVALID_ARGUMENT: the slots suffice, but the GPUs or cores never will. `hosts` must come from as_if_open().
base::Status check_shares(const JobNeed& need, std::span<const SlotHost> hosts) {
  const bool are_known =
      std::ranges::all_of(hosts, [&](const SlotHost& host) { return !may_use(need, host) || host.shape != nullptr; });
  if (!are_known) return base::ok_status();
  const std::vector<SlotHost> all = when_idle(hosts);
  if (fit(need, all)) return base::ok_status();
  const auto misfit = find_misfit(need, all);
  return misfit ? misfit->why.with_context(misfit->host) : base::ok_status();
}

// A job whose ranks live on starts on all slots of its hosts, but with no more than its most ranks. Without hosts it
// starts with its least number.
long within_limits(const model::JobSpec& job, const JobNeed& need, long ranks) {
  if (!job.live) return ranks;
  if (need.request.hosts.empty() && need.request.ranks_per_node == 0) return job.live->min_ranks;
  return job.live->max_ranks ? std::min<long>(ranks, *job.live->max_ranks) : ranks;
}

// A job that may shrink takes fewer ranks if all slots together are too few, as it would after the loss of a host.
int most_that_fit(const model::JobSpec& job, JobNeed need, int ranks, std::span<const SlotHost> hosts) {
  if (job.failure.on_failure != model::OnFailure::kShrink || !need.places.empty()) return ranks;
  const std::int64_t step = std::max(need.request.ranks_per_node, 1);
  const std::int64_t least = std::max<std::int64_t>(job.failure.min_ranks, job.failure.min_hosts * step);
  const auto fits = [&](std::int64_t fewer) {
    need.request.np = static_cast<int>(ranks - fewer * step);
    return has_idle_slots(need, hosts);
  };
  if (ranks < least || fits(0)) return ranks;
  std::int64_t too_few = 0;  // taking away so many steps is too few
  std::int64_t enough = (ranks - least) / step;
  if (!fits(enough)) return ranks;
  while (enough - too_few > 1) {
    const std::int64_t middle = too_few + (enough - too_few) / 2;
    (fits(middle) ? enough : too_few) = middle;
  }
  return static_cast<int>(ranks - enough * step);
}

}  // namespace

ShareRequest share_request(const model::JobSpec& job) {
  ShareRequest request{.pinning = job.pinning};
  model::set_gpu_masks(model::exported_variables({}, job.environment, false), request.masks);
  request.role_masks = model::role_masks(job.roles, {});
  return request;
}

JobNeed need_of(const model::JobSpec& job, int ranks) {
  JobNeed need{.request = job.placement, .places = job.places, .share = share_request(job)};
  need.request.hosts = merged_hosts(job.placement.hosts);
  need.request.np = ranks;
  return need;
}

base::Result<JobNeed> need_of(const model::JobSpec& job, std::span<const SlotHost> hosts, bool more_may_join) {
  JobNeed need = need_of(job, job.placement.np);
  MUSTER_RETURN_IF_ERROR(check_hosts(need, hosts));
  const long ranks =
      job.placement.np > 0 ? job.placement.np : within_limits(job, need, ranks_left_to_hosts(need, hosts));
  if (ranks > model::kMaxRanks) {
    return base::invalid_argument("spec.size: {} ranks exceed the limit of {} for one job", ranks, model::kMaxRanks);
  }
  if (job.live && ranks < job.live->min_ranks) {
    return base::invalid_argument("spec.size: {} ranks are fewer than min_ranks {}: name more hosts or slots", ranks,
                                  job.live->min_ranks);
  }
  const std::vector<SlotHost> undrained = as_if_open(hosts);
  need.request.np = most_that_fit(job, need, static_cast<int>(ranks), undrained);
  const bool is_for_more = more_may_join && need.places.empty() && need.request.hosts.empty();
  if (ranks > 0 && is_for_more) {
    need.request.np = static_cast<int>(ranks);
    return need;
  }
  if (ranks > 0) MUSTER_RETURN_IF_ERROR(check_shares(need, undrained));
  if (ranks > 0 && has_idle_slots(need, undrained)) return need;
  return base::invalid_argument("{}", why_never(need, undrained));
}

bool never_fits(const JobNeed& need, std::span<const SlotHost> hosts) {
  return !check_shares(need, as_if_open(hosts)).ok();
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
      hosts, [&](const SlotHost& host) { return is_awaited(host) && !named.wanted(host.host.name)->slots; });
}

}  // namespace muster::launcherd::queue
