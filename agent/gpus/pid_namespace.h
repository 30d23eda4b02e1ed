// Whether process numbers that a GPU's driver tells are those of this process's PID namespace. Plain functions.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline gpus {

// This process is in the host's own PID namespace: its numbers are the kernel's. True also where nobody can tell.
// `root` goes before all paths.
bool is_in_host_namespace(const std::string& root = "");

// Since 535.113 NVIDIA's driver answers with the numbers of who asks; before, with those of the host.
bool does_driver_translate_pids(std::string_view driver);

}  // namespace muster::agent::gpus
