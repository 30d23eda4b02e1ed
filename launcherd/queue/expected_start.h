// Estimates when a waiting job starts. It runs the queue's own decisions forward in time: running jobs end at their
// time limits, and waiting jobs start and end in their turn.
//
// An array counts as the elements that may start now. A job without a time limit never ends in the estimate. Jobs that
// are submitted later are not in it.
//
// Thread: any. Pure.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "launcherd/queue/job_queue.h"

namespace muster::launcherd::inline queue {

struct RunningUntil {
  model::Placement placement;
  base::Duration left{};  // until the job's time limit; at least 0
};

// The time limit of a waiting job. nullopt if it has none.
using LimitOf = std::function<std::optional<base::Duration>(const base::JobId&)>;

// Larger queues get no estimate, because one costs about as much as starting all their jobs.
inline constexpr std::size_t kMostEstimated = 2'000;

// Returns the time from now until the job's start. nullopt if the queue lacks the job, if a job without a limit may be
// in its way, or if the queue is too long. `running` has only jobs with a limit. `hosts` include what all jobs use.
std::optional<base::Duration> expected_start(JobQueue queue, const base::JobId& id, std::vector<SlotHost> hosts,
                                             const std::vector<RunningUntil>& running, const LimitOf& limit_of);

}  // namespace muster::launcherd::queue
