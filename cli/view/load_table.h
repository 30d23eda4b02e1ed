// How busy launcherd's hosts are, for `muster top`. Pure; text of hosts is made printable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// A line a host under a heading: slots, ranks, cpu, memory, GPUs, output; "-" where nothing is known. A second line for
// a drain's reason or a problem. Empty for none.
std::string format_loads(const std::vector<v1::LauncherHost>& hosts);

// "0 B/s", "12 kB/s", "1.2 MB/s".
std::string format_rate(std::int64_t bytes_per_second);

}  // namespace muster::cli::view
