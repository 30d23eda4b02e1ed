#include "base/env.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>

namespace muster::base {

Environment Environment::current() {
  Environment result;
  for (char** at = ::environ; at != nullptr && *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const auto equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0) continue;
    result.entries_.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  return result;
}

std::optional<std::string_view> Environment::get(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, [](const auto& entry) { return std::string_view(entry.first); });
  if (found == entries_.end()) return std::nullopt;
  return found->second;
}

void Environment::set(std::string_view name, std::string_view value) {
  for (auto& entry : entries_) {
    if (entry.first == name) {
      entry.second = value;
      return;
    }
  }
  entries_.emplace_back(name, value);
}

void Environment::unset(std::string_view name) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first == name; });
}

std::vector<std::string> Environment::to_strings() const {
  std::vector<std::string> result;
  result.reserve(entries_.size());
  for (const auto& [name, value] : entries_) result.push_back(name + "=" + value);
  return result;
}

std::optional<std::string> env_var(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

}  // namespace muster::base
