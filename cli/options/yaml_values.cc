#include "cli/options/yaml_values.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/setting_reader.h"

namespace muster::cli::inline options {

using base::YamlNode;

namespace {

bool is_one_value(const YamlNode& node) {
  return node.kind == YamlNode::Kind::kScalar && node.text.find('\0') == std::string::npos;
}

}  // namespace

std::string YamlValues::place(int line, int column) const {
  return fmt::format("{}:{}:{}", file_name_, line, column);
}

Status YamlValues::fail(const YamlNode& at, std::string_view problem) const {
  return base::invalid_argument("{}: {}", place(at), problem);
}

Status YamlValues::keys(const YamlNode& map, std::string_view what, const Words& known, const ReadKey& read) const {
  if (map.kind != YamlNode::Kind::kMap) {
    return fail(map, fmt::format("{} must hold keys: {}", what, base::join(known, ", ")));
  }
  for (std::size_t i = 0; i < map.items.size(); ++i) {
    const YamlNode::Key& key = map.keys[i];
    if (std::ranges::find(known, key.text) == known.end()) {
      const auto nearest = base::nearest_word(key.text, known);
      return base::invalid_argument(
          "{}: unknown key '{}' in {}; {}", place(key.line, key.column), base::printable(key.text), what,
          nearest ? fmt::format("did you mean {}?", *nearest) : fmt::format("use one of: {}", base::join(known, ", ")));
    }
    MUSTER_RETURN_IF_ERROR(read(key.text, map.items[i]));
  }
  return base::ok_status();
}

Status YamlValues::text(const YamlNode& node, std::string_view key, std::string& into) const {
  if (!is_one_value(node) || node.text.empty()) return fail(node, fmt::format("{} takes one value", key));
  into = node.text;
  return base::ok_status();
}

Status YamlValues::words(const YamlNode& node, std::string_view key, Words& into) const {
  if (node.kind != YamlNode::Kind::kList) {
    return fail(node, fmt::format("{} takes a list of words, as [python3, train.py]: no shell reads it", key));
  }
  into.clear();
  for (const YamlNode& item : node.items) {
    if (!is_one_value(item)) return fail(item, fmt::format("{} takes a list of words", key));
    into.push_back(item.text);
  }
  return base::ok_status();
}

Status YamlValues::environment(const YamlNode& node, Words& into) const {
  if (node.kind != YamlNode::Kind::kMap) return fail(node, "env must hold NAME: VALUE");
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const YamlNode& value = node.items[i];
    const std::string& name = node.keys[i].text;
    if (value.kind != YamlNode::Kind::kNull && !is_one_value(value)) {
      return fail(value, fmt::format("env: {} takes one value", base::printable(name)));
    }
    const Status valid = check_variable(name);
    if (!valid.ok()) return fail(value, valid.message());
    if (name.find('=') != std::string::npos) {
      return fail(value, fmt::format("env: the name '{}' holds a '='", base::printable(name)));
    }
    into.push_back(name + "=" + value.text);
  }
  return base::ok_status();
}

}  // namespace muster::cli::options
