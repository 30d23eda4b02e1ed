// The keys of a template and their allowed values. One table serves the check of files, the search for the nearest key,
// and the documentation: docs/templates.md has every row.
//
// Thread: any; constant data.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "job_templates/document.h"

namespace muster::job_templates {

enum class Takes {
  kText,
  kTexts,   // a text, or a list of them
  kNumber,  // a whole number from min to max
  kNumbers,
  kToggle,  // true or false
  kWord,    // one of `words`
  kKeys,    // a map with the keys below
  kNamed,   // a map from any names to values of the rule in `below`
};

struct KeyRule {
  std::string_view key;
  Takes takes = Takes::kText;
  std::string_view help = {};
  long min = 0;
  long max = 0;
  std::vector<std::string_view> words = {};
  std::vector<KeyRule> below = {};  // kKeys: its keys; kNamed: one rule without a key
  std::string_view name_is_a = {};  // kNamed: "parameter", "variable", "role"
};

// Returns the rule of a whole template; its `takes` is kKeys.
const KeyRule& template_schema();

// Returns the first mistake of one file: an unknown key (with the nearest known one), a value of the wrong type or out
// of its range, or a bad name. null is allowed for every key, because it removes the value of an extended template.
base::Status check_schema(const Piece& root);

// Parses "true", "false", "yes", "no", "on" or "off". nullopt for any other text.
std::optional<bool> parse_switch(std::string_view text);

}  // namespace muster::job_templates
