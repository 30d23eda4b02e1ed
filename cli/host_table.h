// How `muster hosts` and `muster top` show launcherd's hosts. Pure; text of hosts is made printable.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli {

// A line a host under a heading; a second one for a drain's reason or a problem. Empty for none.
std::string format_hosts(const std::vector<v1::LauncherHost>& hosts);

}  // namespace muster::cli
