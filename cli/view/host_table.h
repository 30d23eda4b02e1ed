// Formats launcherd's hosts for `muster hosts`. Text of hosts is made printable.
// Thread: any; pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/view/short_rows.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// Formats a heading and a line for each host. Further lines show its GPUs, a drain's reason, jobs in which
// it failed, and a problem. Empty if there are no hosts. If there are more than `most`, those that failed or do not
// answer come first, and a line counts the others.
std::string format_hosts(const std::vector<v1::LauncherHost>& hosts, std::size_t most = kAllRows);

// Formats the same table as format_hosts(), but with other columns after the host's name. `heading` is their heading,
// and `columns` returns their text for a host.
std::string table_of_hosts(const std::vector<v1::LauncherHost>& hosts, std::string_view heading,
                           const std::function<std::string(const v1::LauncherHost&)>& columns,
                           std::size_t most = kAllRows);

// Returns the state of a host's agent: "up", "none, drained".
std::string agent_state(const v1::LauncherHost& host);

// Returns "900 MiB" or "79 GiB". Returns "-" for 0, which means not known.
std::string size_of_mib(std::int64_t mebibytes);

// Returns used and all slots: "3/8".
std::string slots_of(const v1::LauncherHost& host);

}  // namespace muster::cli::view
