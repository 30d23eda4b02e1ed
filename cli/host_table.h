// How `muster hosts` shows launcherd's hosts. Pure; text of hosts is made printable.
#pragma once

#include <string>
#include <vector>

#include "proto/muster/v1/launcher.pb.h"

namespace muster::cli {

// A line a host under a heading; a second one for a drain's reason or a problem. Empty for none.
std::string format_hosts(const std::vector<v1::LauncherHost>& hosts);

// "up", "none, drained".
std::string agent_state(const v1::LauncherHost& host);

// Lines for a drain's reason and a problem; empty: there is neither.
std::string host_remarks(const v1::LauncherHost& host);

}  // namespace muster::cli
