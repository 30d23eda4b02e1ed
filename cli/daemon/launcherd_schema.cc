#include "cli/daemon/launcherd_schema.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/daemon/launcherd_options.h"

namespace muster::cli::inline daemon {
namespace {

// The tables of options hold printable text.
std::string json_text(std::string_view text) {
  std::string json = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') json += '\\';
    json += c;
  }
  return json + '"';
}

// Returns the type of one value. YAML has its own types for numbers and for yes and no.
std::string one_value(const Flag& flag) {
  if (flag.is_switch()) return R"({"type": "boolean"})";
  if (flag.choices.empty()) return R"({"type": ["string", "number"]})";
  std::vector<std::string> words;
  for (const std::string_view choice : flag.choices) words.push_back(json_text(choice));
  return fmt::format(R"({{"enum": [{}]}})", base::join(words, ", "));
}

std::string property(const Flag& flag) {
  const std::string one = one_value(flag);
  const bool takes_list = flag.repeat != Repeat::kLastCounts || flag.separator != '\0';
  std::string types = one + R"(, {"type": "null"})";
  if (takes_list) types += fmt::format(R"(, {{"type": "array", "items": {}}})", one);
  std::string text = fmt::format(R"(    {}: {{"description": {}, "anyOf": [{}])", json_text(flag.config_key),
                                 json_text(flag.help), types);
  if (!flag.standard.empty()) text += ", \"default\": " + json_text(flag.standard);
  return text + "}";
}

// Returns the sections of config.yaml, such as "muster". The schema does not look into them.
std::vector<std::string> sections() {
  std::vector<std::string> names;
  for (const Flag& flag : launcherd_settable_flags().flags()) {
    const std::string name = flag.config_key.substr(0, flag.config_key.find('.'));
    const bool is_section = name.size() < flag.config_key.size();
    if (is_section && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

std::string launcherd_schema() {
  std::vector<std::string> properties;
  for (const Flag& flag : launcherd_file_flags().flags()) {
    if (flag.config_key.find('.') == std::string::npos && flag.is_setting()) properties.push_back(property(flag));
  }
  for (const std::string& name : sections()) {
    properties.push_back(
        fmt::format(R"(    {}: {{"description": "As in config.yaml.", "type": ["object", "null"]}})", json_text(name)));
  }
  return fmt::format(R"({{
  "$schema": "https://json-schema.org/draft/2020-12/schema",
  "title": "launcherd.yaml",
  "description": "Options of Muster's launcherd, by their names with '_' for '-'.",
  "type": ["object", "null"],
  "properties": {{
{}
  }},
  "additionalProperties": false
}}
)",
                     base::join(properties, ",\n"));
}

}  // namespace muster::cli::daemon
