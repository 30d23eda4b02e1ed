// What a job that is submitted asks of the hosts, and whether it can ever have it. Pure.
#pragma once

#include <span>

#include "base/status.h"
#include "launcherd/queue/slots.h"
#include "model/job_spec.h"

namespace muster::launcherd::inline queue {

ShareWish share_wish(const model::JobSpec& job);

// Says how many ranks there are where the spec leaves that to the hosts. INVALID_ARGUMENT: the job could never run
// here, also if all hosts were idle and none drained; for want of GPUs or cores only where all of its hosts are known.
// `more_come`: a job that names no host waits for them, whatever it wants; why_not() says what is missing.
base::Result<JobNeed> need_of(const model::JobSpec& job, std::span<const SlotHost> hosts, bool more_come = false);

// Of a job that was let in with so many ranks. The list of hosts may be another one since: then it waits for them.
JobNeed need_of(const model::JobSpec& job, int ranks);

// Whether no host that the job may use has the cores or GPUs for it, not even if all were idle and open. false while
// one of them is not known.
bool never_fits(const JobNeed& need, std::span<const SlotHost> hosts);

// Whether what need_of() says of the job may be another thing when the hosts that are asked for their GPUs have told.
bool depends_on_counts(const model::JobSpec& job, std::span<const SlotHost> hosts);

}  // namespace muster::launcherd::queue
