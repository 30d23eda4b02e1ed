// Values of a YAML file that describes jobs, each read as what it is meant to be. Errors: FILE:LINE:COLUMN: what is
// wrong. Any thread.
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

  // `file_name` must live longer.
  explicit YamlValues(const std::string& file_name) : file_name_(file_name) {}

  std::string place(const base::YamlNode& at) const { return place(at.line, at.column); }
  base::Status fail(const base::YamlNode& at, std::string_view problem) const;

  // `read` gets each key of `map`, all of which are `known`; `what` is how a sentence calls the map.
  base::Status keys(const base::YamlNode& map, std::string_view what, const Words& known, const ReadKey& read) const;
  // One value that is not empty.
  base::Status text(const base::YamlNode& node, std::string_view key, std::string& into) const;
  // A list of values, in place of what `into` held.
  base::Status words(const base::YamlNode& node, std::string_view key, Words& into) const;
  // NAME: VALUE as NAME=VALUE, behind what `into` holds. A name is what a shell would take for one, too.
  base::Status environment(const base::YamlNode& node, Words& into) const;

 private:
  std::string place(int line, int column) const;

  const std::string& file_name_;
};

}  // namespace muster::cli::options
