// YAML documents as a plain tree in which every node knows its place. Only yaml.cc uses yaml-cpp.
//
// It is for configuration: one document, unique plain text keys, and a limited depth. No aliases, because they can turn
// a small file into a large tree.
// Errors: all other YAML is refused. Each error names line and column.
// Thread: any.
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
  std::string text;  // for kScalar: as written, without quotes
  int line = 1;      // from 1; where the value begins
  int column = 1;
  std::vector<Key> keys;        // for kMap: one for each item
  std::vector<YamlNode> items;  // for kList and kMap, in order
};

inline constexpr int kMaxYamlDepth = 16;

// An empty document is kNull. Errors have the form "FILE:LINE:COLUMN: what is wrong".
Result<YamlNode> parse_yaml(std::string_view content, std::string_view file_name);

}  // namespace muster::base
