// The NVIDIA kernel driver of a host, by the contents of /proc/driver/nvidia/version. Pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::agent::inline probe {

// "535.104.05"; "of unknown version" where the text has none.
std::string parse_nvidia_version(std::string_view content);

}  // namespace muster::agent::probe
