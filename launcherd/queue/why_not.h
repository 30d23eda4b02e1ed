// Why a job does not start, for people. Pure.
#pragma once

#include <span>
#include <string>

#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// Why it does not fit, for people: "needs 16 slots, 12 are free on n1..n3".
std::string why_not(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);
// Why there are not the slots for it if nothing runs: begins with the field of the request.
std::string why_never(const JobNeed& need, std::span<const SlotHost> hosts);

}  // namespace muster::launcherd::queue
