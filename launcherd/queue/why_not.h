// Explains to users why a job does not start.
//
// Thread: any; pure functions.
#pragma once

#include <span>
#include <string>

#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// Returns why the job does not fit now, for example "needs 16 slots, 12 are free on n1..n3".
std::string why_not(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);
// Returns why the slots would not suffice even if nothing ran. The text begins with the field of the request.
std::string why_never(const JobNeed& need, std::span<const SlotHost> hosts);

}  // namespace muster::launcherd::queue
