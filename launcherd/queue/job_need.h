// Derives what a submitted job requests of the hosts, and checks whether it can ever get that.
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
// counts only if all of its hosts are known.
base::Result<JobNeed> need_of(const model::JobSpec& job, std::span<const SlotHost> hosts, bool more_may_join = false);

// For a job that was accepted with this number of ranks. If the list of hosts has changed since, the job waits for its
// hosts.
JobNeed need_of(const model::JobSpec& job, int ranks);

// Returns true if the hosts that the job may use can never provide its cores or GPUs, even if all were idle and open.
// false while one of them is not known.
bool never_fits(const JobNeed& need, std::span<const SlotHost> hosts);

// Returns whether need_of() may decide differently once the hosts that are being asked for their GPUs have answered.
bool depends_on_counts(const model::JobSpec& job, std::span<const SlotHost> hosts);

}  // namespace muster::launcherd::queue
