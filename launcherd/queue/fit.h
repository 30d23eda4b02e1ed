// Where a job could run now, and with what of each host. Pure.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/status.h"
#include "launcherd/queue/device_lists.h"
#include "launcherd/queue/slots.h"

namespace muster::launcherd::inline queue {

// Where it runs when it starts now, with its shares of the hosts that are known; nullopt: not enough is free.
// `known`: of a pass over many jobs (launcherd/queue/device_lists.h).
std::optional<model::Placement> fit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);

// Whether there would be the slots for it if nothing else ran, as far as is known.
bool has_idle_slots(const JobNeed& need, std::span<const SlotHost> hosts);

// Where its share of a host is not to be had, and why.
struct Misfit {
  std::string host;
  base::Status why;
};
// Of a job for which there are the slots: the first host where its share is not to be had.
std::optional<Misfit> find_misfit(const JobNeed& need, std::span<const SlotHost> hosts, DeviceLists* known = nullptr);

// Of a job whose ranks are placed: how many each host has.
std::map<std::string, int> ranks_by_host(const JobNeed& need);
// nullptr: there is none.
const SlotHost* find_host(std::span<const SlotHost> hosts, const std::string& name);

}  // namespace muster::launcherd::queue
