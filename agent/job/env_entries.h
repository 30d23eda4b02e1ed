// Environments as execve takes them: entries of NAME=VALUE.
#pragma once

#include <string>
#include <vector>

namespace muster::agent::inline job {

// Removes all entries of the name.
inline void unset_entry(const std::string& name, std::vector<std::string>& entries) {
  std::erase_if(entries, [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace muster::agent::job
