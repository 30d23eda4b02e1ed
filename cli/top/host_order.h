// Filters and sorts hosts for `muster top`. launcherd sends them all, in the order of its list.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline top {

enum class HostOrder { kList, kName, kSlots, kCpu, kMemory, kGpu, kOutput };
inline constexpr int kHostOrders = 7;

std::string_view name_of(HostOrder order);

// Returns the indices of the hosts that have all words of `filter` in their name, agent's state, reason or problem, in
// this order. Except for kList and kName, the largest values come first, and hosts without a value last.
std::vector<std::size_t> ordered_hosts(const std::vector<v1::LauncherHost>& hosts, const std::string& filter,
                                       HostOrder order, bool is_reversed);

// Returns the average load of the host's GPUs in percent; -1 if it is not known.
int gpu_percent(const v1::LauncherHost& host);

}  // namespace muster::cli::top
