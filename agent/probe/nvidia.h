// Reads the version of a host's NVIDIA kernel driver from the contents of /proc/driver/nvidia/version. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// Returns a text like "535.104.05", or "of unknown version" if the contents have none.
std::string parse_nvidia_version(std::string_view content);

}  // namespace muster::agent::probe
