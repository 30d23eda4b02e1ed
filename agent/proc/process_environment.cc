#include "agent/proc/process_environment.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/file.h"

namespace muster::agent::inline proc {

std::optional<std::string> ProcessEnvironment::get(std::string_view name) const {
  std::string_view rest = content_;
  while (!rest.empty()) {
    const std::string_view entry = rest.substr(0, rest.find('\0'));
    if (entry.size() > name.size() && entry.starts_with(name) && entry[name.size()] == '=') {
      return std::string(entry.substr(name.size() + 1));
    }
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
  }
  return std::nullopt;
}

ProcessEnvironment read_environment(pid_t pid) {
  constexpr std::size_t kLongest = 4u << 20;
  auto content = base::read_file(fmt::format("/proc/{}/environ", pid), kLongest);
  return content.ok() ? ProcessEnvironment(std::move(*content)) : ProcessEnvironment();
}

}  // namespace muster::agent::proc
