// JSON documents as a plain tree, for documents that other programs write.
//
// The parser trusts nothing: it accepts exactly RFC 8259, and bounds the depth and the number of values. Texts keep
// their bytes, which need not be valid UTF-8.
// Thread: any; pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace muster::base {

struct JsonNode {
  enum class Kind { kNull, kBool, kNumber, kString, kArray, kObject };

  Kind kind = Kind::kNull;
  std::string text{};               // for kString: without quotes and escapes; for kNumber: as written
  bool is_true = false;             // for kBool
  std::vector<JsonNode> items{};    // for kArray and kObject
  std::vector<std::string> keys{};  // for kObject: one for each item

  // Returns the value of the first such key. nullptr if this is no object, or has no such key.
  const JsonNode* find(std::string_view key) const;
  // Returns the text at this key. Empty if there is no text.
  std::string_view text_at(std::string_view key) const;
  // Returns the items of the array at this key. Empty if there is no array.
  const std::vector<JsonNode>& array_at(std::string_view key) const;
  // Returns the number, if it is a whole one that fits. nullopt for all other nodes.
  std::optional<std::int64_t> whole_number() const;
  std::optional<std::int64_t> number_at(std::string_view key) const;
  bool is_true_at(std::string_view key) const;
};

struct JsonLimits {
  int depth = 32;
  std::size_t values = 1 << 18;
};

// INVALID_ARGUMENT: it is no JSON; the message names the offset. RESOURCE_EXHAUSTED: it exceeds a limit.
Result<JsonNode> parse_json(std::string_view text, const JsonLimits& limits = {});

// Returns `text` as a JSON string, with its quotes. Bytes that are not UTF-8 become U+FFFD.
std::string json_quoted(std::string_view text);

}  // namespace muster::base
