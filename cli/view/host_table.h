// How `muster hosts` shows launcherd's hosts. Pure; text of hosts is made printable.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli::inline view {

// A line a host under a heading; a second one for a drain's reason or a problem. Empty for none.
std::string format_hosts(const std::vector<v1::LauncherHost>& hosts);

// Such a table of other columns: `heading`, and what `columns` gives under it, begin after the host's name.
std::string table_of_hosts(const std::vector<v1::LauncherHost>& hosts, std::string_view heading,
                           const std::function<std::string(const v1::LauncherHost&)>& columns);

// "up", "none, drained".
std::string agent_state(const v1::LauncherHost& host);

// "900 MiB", "79 GiB"; "-" for 0, which is not known.
std::string size_of_mib(std::int64_t mebibytes);

// Used and all: "3/8".
std::string slots_of(const v1::LauncherHost& host);

}  // namespace muster::cli::view
