// Derives what a submitted job requests of the hosts, and checks whether the hosts can ever provide it.
//
// Thread: any; pure functions.
#pragma once

#include <span>

#include "base/status.h"
#include "launcherd/queue/slots.h"
#include "model/job_spec.h"

namespace muster::launcherd::inline queue {

ShareRequest share_request(const model::JobSpec& job);

// Decides the number of ranks if the spec leaves that to the hosts. If `more_may_join`, more hosts may connect by
// themselves. A job that names no host then waits for them, and why_not() reports what is missing.
// INVALID_ARGUMENT: the job could never run here, even if all hosts were idle and none drained. A lack of GPUs or cores
// counts only if all of the job's hosts are known.
base::Result<JobNeed> need_of(const model::JobSpec& job, std::span<const SlotHost> hosts, bool more_may_join = false);

// Returns the need of a job that was accepted with this number of ranks. If the list of hosts has changed since, the
// job waits for its hosts.
JobNeed need_of(const model::JobSpec& job, int ranks);

// Returns true if the job's hosts can never provide its cores or GPUs, even if all were idle and open. Returns false
// while one of these hosts is unknown.
bool never_fits(const JobNeed& need, std::span<const SlotHost> hosts);

// Returns whether need_of() may decide differently once all awaited hosts have reported their GPUs.
bool depends_on_counts(const model::JobSpec& job, std::span<const SlotHost> hosts);

}  // namespace muster::launcherd::queue
