// Converts the values of a YAML file that describes jobs.
// Errors have the form FILE:LINE:COLUMN: what is wrong.
// Thread: any.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/yaml.h"

namespace muster::cli::inline options {

class YamlValues {
 public:
  using Words = std::vector<std::string>;
  using ReadKey = std::function<base::Status(const std::string& key, const base::YamlNode& value)>;

  // `file_name` must outlive this object.
  explicit YamlValues(const std::string& file_name) : file_name_(file_name) {}

  std::string place(const base::YamlNode& at) const { return place(at.line, at.column); }
  base::Status fail(const base::YamlNode& at, std::string_view problem) const;

  // Calls `read` for each key of `map`. A key that is not in `known` is an error. `what` names the map in messages.
  base::Status keys(const base::YamlNode& map, std::string_view what, const Words& known, const ReadKey& read) const;
  // Reads one value, which must not be empty.
  base::Status text(const base::YamlNode& node, std::string_view key, std::string& into) const;
  // Reads a list of values, which replaces the contents of `into`.
  base::Status words(const base::YamlNode& node, std::string_view key, Words& into) const;
  // Reads NAME: VALUE as NAME=VALUE and appends it to `into`. NAME must be a valid name of a variable.
  base::Status environment(const base::YamlNode& node, Words& into) const;

 private:
  std::string place(int line, int column) const;

  const std::string& file_name_;
};

}  // namespace muster::cli::options
