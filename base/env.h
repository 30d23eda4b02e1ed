// An environment as data: an ordered list of NAME=VALUE, as execve takes it. Values may hold any byte except NUL.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace muster::base {

class Environment {
 public:
  // Returns the calling process's environment. Read it before threads start.
  static Environment current();

  std::optional<std::string_view> get(
      std::string_view name) const;                         // the view is valid until the next set() or unset()
  void set(std::string_view name, std::string_view value);  // replaces an older value
  void unset(std::string_view name);
  const std::vector<std::pair<std::string, std::string>>& entries() const { return entries_; }
  std::vector<std::string> to_strings() const;  // NAME=VALUE, in order

 private:
  std::vector<std::pair<std::string, std::string>> entries_;
};

// Returns the result of getenv() as an optional. An empty value counts as set.
std::optional<std::string> env_var(const char* name);

}  // namespace muster::base
