// The part of JobManager that changes the size of jobs by their --elastic-policy. launcherd/queue/give_back.h decides.
// Read it in this order: sized_job, change_sizes, jobs_of_other_size, give_slots_back, grow, change_size.
#include <algorithm>
#include <utility>

#include "launcherd/daemon/job_manager.h"

namespace muster::launcherd::inline daemon {
namespace {

// Pause before the next try of a change that was refused.
constexpr std::chrono::seconds kRefusedPause{1};

}  // namespace

SizedJob JobManager::sized_job(const base::JobId& id, const proto::Submission& submission, int priority,
                               std::uint64_t number) {
  const model::FailurePolicy& failure = submission.job.failure;
  const auto& live = submission.job.live;
  return {.id = id,
          .priority = priority,
          .number = number,
          .policy = submission.requests.elastic_policy,
          .min_ranks = live ? live->min_ranks : failure.min_ranks,
          .min_hosts = failure.min_hosts,
          .max_ranks = live ? live->max_ranks : failure.max_ranks};
}

// Call it when the queue has started what fits.
void JobManager::change_sizes() {
  const bool is_any_waiting = queue_.size() > 0 || !waiting_for_hosts_.empty() || !waiting_shares_.empty();
  if (is_any_waiting || was_any_waiting_) quiet_since_ = surroundings_.clock->now();
  was_any_waiting_ = is_any_waiting;
  const std::vector<SizedJob> jobs = jobs_of_other_size();
  if (jobs.empty()) return;
  if (is_any_waiting) {
    give_slots_back(jobs);
  } else {
    grow(jobs);
  }
}

// Returns the jobs that may change their size by themselves, and those whose size changes now. Without any of the first
// kind it returns none.
std::vector<SizedJob> JobManager::jobs_of_other_size() const {
  std::vector<SizedJob> jobs;
  bool is_any = false;
  for (const auto& [id, job] : jobs_) {
    if (job.running == nullptr) continue;
    const std::optional<int> changes_to = job.running->changes_to();
    const bool changes_by_itself = job.sized.policy != model::ElasticPolicy::kFixed;
    if (!changes_by_itself && !changes_to) continue;
    is_any = is_any || changes_by_itself;
    SizedJob& sized = jobs.emplace_back(job.sized);
    sized.placement = job.running->allocation();
    sized.changes_to = changes_to;
    // A job that stops for another reason than its size may end by itself.
    const bool is_stopping = !changes_to && job.running->state() == model::JobState::kStopping;
    sized.waits_for_hosts = job.running->waits_for_hosts() || is_stopping;
  }
  if (!is_any) jobs.clear();
  return jobs;
}

void JobManager::give_slots_back(const std::vector<SizedJob>& jobs) {
  const std::vector<SlotHost> slots = hosts_.slots();
  const std::optional<WaitingJob> head = queue_.head(slots);
  if (!head) return;
  // Free slots of hosts that have not reported yet may be enough.
  const bool is_any_unknown = std::ranges::any_of(slots, [&](const SlotHost& host) {
    return host.free() > 0 && (host.is_starting() || awaits_host_facts(head->need, host));
  });
  if (is_any_unknown) {
    sizes_timer_ = loop_.after(kRefusedPause, [this] { schedule(); });
    return;
  }
  const GiveBack given = give_back(*head, jobs, slots);
  if (!given.is_enough) return;
  queue_.reserve_for(head->id);
  for (const SizeChange& each : given.changes) {
    const int slots_back = each.from - each.to;
    change_size(each.id, each.to,
                {.cause = ResizeCause::kPreemption,
                 .text = fmt::format("preemption: gives {} slot{} back to job {} (priority {})", slots_back,
                                     slots_back == 1 ? "" : "s", head->id.str(), head->priority)});
  }
}

void JobManager::grow(const std::vector<SizedJob>& jobs) {
  const base::MonotonicTime now = surroundings_.clock->now();
  const GrowthTurns turns = growth_turns(jobs, quiet_since_, now);
  if (turns.later) sizes_timer_ = loop_.after(*turns.later - now, [this] { schedule(); });
  for (const base::JobId& id : turns.now) {
    const OpenJob& job = *find(id);
    const int before = job.running->size();
    const int size = job.running->could_grow_to(job.sized.max_ranks.value_or(model::kMaxRanks));
    if (size <= before) continue;
    const int more = size - before;
    return change_size(
        id, size,
        {.cause = ResizeCause::kGrowth,
         .text = fmt::format("growth: takes {} free slot{}, as no job waits", more, more == 1 ? "" : "s")});
  }
  // A job may start just now, or the cool-down of a host may end.
  if (!turns.now.empty() && !turns.later) {
    sizes_timer_ = loop_.after(kQuietBeforeGrowth, [this] { schedule(); });
  }
}

void JobManager::change_size(const base::JobId& id, int size, ResizeReason reason) {
  OpenJob& job = *find(id);
  const base::Status resized = job.running->resize(size, {}, std::move(reason));
  if (!resized.ok()) {
    sizes_timer_ = loop_.after(kRefusedPause, [this] { schedule(); });
    return;
  }
  job.sized.changed_at = surroundings_.clock->now();
  if (!job.running->is_over()) record(id, {job.running->recovery()}, {});
}

}  // namespace muster::launcherd::daemon
