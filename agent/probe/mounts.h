// Finds the type of file system on which a path lies, from the contents of /proc/self/mounts (fstab(5) format). Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// Returns the type of the mount that holds `path`, which must be absolute and without links. The mount is the one
// with the longest mount point above the path, or the last of several. Empty if there is none.
std::string file_system_of(std::string_view mounts, std::string_view path);

}  // namespace muster::agent::probe
