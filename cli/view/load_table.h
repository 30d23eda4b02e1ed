// Formats the load of launcherd's hosts for `muster top`. Text of hosts is made printable.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// Formats a heading and a line for each host: slots, ranks, cpu, memory, GPUs, output. "-" means not known. A second
// line shows a drain's reason or a problem. Empty if there are no hosts.
std::string format_loads(const std::vector<v1::LauncherHost>& hosts);

// Returns "0 B/s", "12 kB/s" or "1.2 MB/s".
std::string format_rate(std::int64_t bytes_per_second);

}  // namespace muster::cli::view
