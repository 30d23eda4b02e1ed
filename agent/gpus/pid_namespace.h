// Finds out whether a GPU's driver reports process numbers of this process's PID namespace. Plain functions.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline gpus {

// True if this process is in the host's own PID namespace, so that pids here are those of the kernel. Also true if that
// cannot be found out. `root` is put before all paths.
bool is_in_host_namespace(const std::string& root = "");

// True for drivers from 535.113 on, which report pids of the asking process's namespace. Older drivers report the
// host's pids.
bool does_driver_translate_pids(std::string_view driver);

}  // namespace muster::agent::gpus
