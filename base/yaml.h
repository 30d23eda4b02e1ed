// YAML documents as a plain tree in which every piece knows its place. The one file that touches yaml-cpp.
//
// Meant for configuration: one document, keys are plain text and unique, no aliases (they can make a small file a large
// tree), a bounded depth. Everything else is an error that names line and column. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::base {

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Key {
    std::string text;
    int line = 0;
    int column = 0;
  };

  Kind kind = Kind::kNull;
  std::string text;  // kScalar: as written, without quotes
  int line = 1;      // from 1; where the value begins
  int column = 1;
  std::vector<Key> keys;        // kMap: one for each item
  std::vector<YamlNode> items;  // kList and kMap, in order
};

inline constexpr int kMaxYamlDepth = 16;

// An empty document is kNull. Errors: "FILE:LINE:COLUMN: what is wrong".
Result<YamlNode> parse_yaml(std::string_view content, std::string_view file_name);

}  // namespace muster::base
