// Which kind of file system a path lies on, by the contents of /proc/self/mounts (fstab(5) format). Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// The type of the mount that holds `path` (absolute, without links): the longest mount point above it, the last of
// equal ones. Empty when none is.
std::string file_system_of(std::string_view mounts, std::string_view path);

}  // namespace muster::agent::probe
