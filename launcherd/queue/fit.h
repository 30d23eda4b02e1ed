// Finds hosts on which a job can run now, and its share of each of them.
//
// Thread: any; pure functions.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// Returns the job's placement if it can start now, with its shares of the known hosts. nullopt if too little is free.
// One pass over many jobs shares `known` (launcherd/queue/device_lists.h).
std::optional<model::Placement> fit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);

// Returns whether the hosts would have slots for the job if nothing else ran, as far as they are known.
bool has_idle_slots(const JobNeed& need, std::span<const SlotHost> hosts);

// A host that cannot provide the job's share, and the reason.
struct Misfit {
  std::string host;
  base::Status why;
};
// Finds the first host that cannot provide the job's share. Only for jobs that have enough slots.
std::optional<Misfit> find_misfit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);

// Returns the number of ranks for each host. Only for jobs whose ranks have places.
std::map<std::string, int> ranks_by_host(const JobNeed& need);
// nullptr if the list has no such host.
const SlotHost* find_host(std::span<const SlotHost> hosts, const std::string& name);

}  // namespace muster::launcherd::queue
