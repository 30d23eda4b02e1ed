// Finds slots that a running job may get beside those that it has.
//
// Thread: any; pure functions.
#pragma once

#include <span>
#include <vector>

#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// Returns the hosts with slots for further ranks of the job, in the order of the list. Each has the number of ranks,
// at most `most`, that it can take now with their shares. `own` is what the job has already.
std::vector<model::HostSpec> more_slots(const JobNeed& need, const model::Placement& own,
                                        std::span<const SlotHost> hosts, int most);

// Returns what more_slots() could return at best: as if no other job ran and every host accepted jobs.
std::vector<model::HostSpec> most_slots(const JobNeed& need, const model::Placement& own,
                                        std::span<const SlotHost> hosts, int most);

}  // namespace muster::launcherd::queue
