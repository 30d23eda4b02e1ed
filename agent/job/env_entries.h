// Helpers for environments in the form that execve takes: a list of NAME=VALUE entries.
#pragma once

#include <string>
#include <vector>

namespace muster::agent::inline job {

// Removes all entries with this name.
inline void unset_entry(const std::string& name, std::vector<std::string>& entries) {
  std::erase_if(entries, [&](const std::string& entry) { return entry.starts_with(name + "="); });
}

}  // namespace muster::agent::job
