// Decides which running jobs change their size by themselves (--elastic-policy): which give slots to the head of the
// queue, and which grow (docs/adr/0048-jobs-that-give-slots-back.md).
//
// Thread: any. Plain values and pure functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "launcherd/queue/slots.h"
#include "model/elastic_policy.h"
#include "model/placement.h"

namespace muster::launcherd::inline queue {

// No job grows so soon after its last change, or after any job has waited or started.
inline constexpr std::chrono::seconds kQuietBeforeGrowth{10};

// A job that runs, as far as its size matters.
struct SizedJob {
  base::JobId id;
  int priority = 0;
  std::uint64_t number = 0;  // a newer job has a higher one
  model::ElasticPolicy policy = model::ElasticPolicy::kFixed;
  int min_ranks = 1;
  int min_hosts = 1;
  std::optional<int> max_ranks{};
  base::MonotonicTime changed_at{};  // when it started or last changed its hosts
  model::Placement placement{};      // what it has
  // The number of ranks to which a running change leads; 0 if the job is being ended. nullopt: nothing changes.
  std::optional<int> changes_to{};
  bool waits_for_hosts = false;  // none of its ranks runs
};

// A job that waits for slots.
struct WaitingJob {
  base::JobId id;
  int priority = 0;
  JobNeed need;
};

struct SizeChange {
  base::JobId id;
  int from = 0;
  int to = 0;
};

struct GiveBack {
  bool is_enough = false;             // the job fits once these changes, and those that run already, are done
  std::vector<SizeChange> changes{};  // empty if they are not enough
};

// Returns how the jobs shrink so that the waiting one fits. `hosts` include what all jobs use.
GiveBack give_back(const WaitingJob& waiting, std::span<const SizedJob> jobs, const std::vector<SlotHost>& hosts);

struct GrowthTurns {
  std::vector<base::JobId> now{};              // jobs that may grow now; the first that finds free slots does
  std::optional<base::MonotonicTime> later{};  // when to ask again
};

// Call it only while no job waits. `quiet_since` is when a job last waited or started.
GrowthTurns growth_turns(std::span<const SizedJob> jobs, base::MonotonicTime quiet_since, base::MonotonicTime now);

}  // namespace muster::launcherd::queue
