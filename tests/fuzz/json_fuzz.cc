// Feeds bytes to the parser of JSON. It must accept or refuse them, and each of its values must be readable.
#include <cstdint>
#include <cstdlib>

#include "base/json.h"

namespace {

using muster::base::JsonNode;

std::size_t count(const JsonNode& node) {
  const bool is_object = node.kind == JsonNode::Kind::kObject;
  if (node.keys.size() != (is_object ? node.items.size() : 0)) std::abort();
  if (!node.items.empty() && !is_object && node.kind != JsonNode::Kind::kArray) std::abort();
  std::size_t values = 1;
  for (const JsonNode& item : node.items) values += count(item);
  for (const std::string& key : node.keys) {
    if (node.find(key) == nullptr) std::abort();
  }
  const auto number = node.whole_number();
  if (number && std::to_string(*number) != node.text && node.text != "-0") std::abort();
  return values;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const muster::base::JsonLimits limits{.depth = 8, .values = 100};
  const auto parsed = muster::base::parse_json({reinterpret_cast<const char*>(data), size}, limits);
  if (parsed.ok() && count(*parsed) > limits.values) std::abort();
  return 0;
}
