// Which keys a template has, and what each takes: one table for the check of files, the search for the nearest key and
// the documentation (docs/templates.md holds every row). Constant data.
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
  kNumber,  // whole, from min to max
  kNumbers,
  kToggle,  // true or false
  kWord,    // one of `words`
  kKeys,    // a map with the keys below
  kNamed,   // a map from names of one's own to what `below` says of each
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

// Of a whole template: kKeys.
const KeyRule& template_schema();

// The first mistake of one file: an unknown key with the nearest one there is, a value of the wrong type or out of its
// range, a name that is none. null is allowed everywhere: it takes away what a template below says. Pure.
base::Status check_schema(const Piece& root);

// "true", "false", "yes", "no", "on", "off"; nullopt otherwise.
std::optional<bool> parse_switch(std::string_view text);

}  // namespace muster::job_templates
