#include "agent/probe/nvidia.h"

#include "base/strings.h"

namespace muster::agent::inline probe {

// The first line looks like "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05  Sat Aug 19 01:15:15 UTC
// 2023". The compiler follows on the next line.
std::string parse_nvidia_version(std::string_view content) {
  for (const std::string_view word : base::split(content.substr(0, content.find('\n')), ' ')) {
    const bool is_version = word.find('.') != std::string_view::npos && word.size() <= 32 &&
                            word.find_first_not_of("0123456789.") == std::string_view::npos;
    if (is_version) return std::string(word);
  }
  return "of unknown version";
}

}  // namespace muster::agent::probe
