// The reader of plain JSON: one function for each kind of field, and the writer of chunks of output.
// Read parse_plain_json() near the end first, then PlainReader::object(), then PlainReader::scalar().
#include "proto/plain_json.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>

#include "base/base64.h"
#include "base/json.h"
#include "base/shortened.h"
#include "base/strings.h"
#include "proto/field_names.h"
#include "proto/message_json.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::proto {
namespace {

using base::JsonNode;
using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using Kind = JsonNode::Kind;

constexpr std::size_t kLongestName = 64;  // of a foreign key in an error
constexpr int kMostNumber = 1'000'000;    // in a list such as 0-3,8
constexpr std::size_t kMostNumbers = 10'000;

template <typename Number>
std::optional<Number> number_of(const JsonNode& node) {
  if (node.kind != Kind::kNumber && node.kind != Kind::kString) return std::nullopt;
  Number number{};
  const char* const end = node.text.data() + node.text.size();
  const auto [stop, failure] = std::from_chars(node.text.data(), end, number);
  if (failure != std::errc() || stop != end || node.text.empty()) return std::nullopt;
  return number;
}

class PlainReader {
 public:
  // `path` is the path of `into`, with a final dot. It is empty for the whole document.
  base::Status object(const JsonNode& node, Message& into, const std::string& path) {
    if (node.kind != Kind::kObject) {
      const std::string_view name = path.empty() ? std::string_view("body") : std::string_view(path);
      return base::invalid_argument("{}: must be a JSON object", name.substr(0, name.find_last_not_of('.') + 1));
    }
    std::set<const FieldDescriptor*> seen;
    for (std::size_t i = 0; i < node.keys.size(); ++i) {
      const FieldDescriptor* const field = find_field(*into.GetDescriptor(), node.keys[i]);
      const std::string name = path + base::shortened(base::printable(node.keys[i]), kLongestName);
      if (field == nullptr) return unknown_field(*into.GetDescriptor(), node.keys[i], name);
      if (!seen.insert(field).second) return base::invalid_argument("{}: is given twice", name);
      MUSTER_RETURN_IF_ERROR(member(node.items[i], into, *field, path + field->name()));
    }
    return base::ok_status();
  }

 private:
  // null leaves the field as it is, as in proto3 JSON.
  base::Status member(const JsonNode& node, Message& into, const FieldDescriptor& field, const std::string& path) {
    if (node.kind == Kind::kNull) return base::ok_status();
    if (!field.is_repeated()) return value(node, into, field, path);
    if (node.kind != Kind::kArray) return base::invalid_argument("{}: must be an array", path);
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      MUSTER_RETURN_IF_ERROR(value(node.items[i], into, field, fmt::format("{}[{}]", path, i)));
    }
    return base::ok_status();
  }

  base::Status value(const JsonNode& node, Message& into, const FieldDescriptor& field, const std::string& path) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return scalar(node, into, field, path);
    const auto& access = *into.GetReflection();
    Message& inner = field.is_repeated() ? *access.AddMessage(&into, &field) : *access.MutableMessage(&into, &field);
    if (is_time(*field.message_type())) return time(node, inner, path);
    return object(node, inner, path + ".");
  }

  static base::Status time(const JsonNode& node, Message& into, const std::string& path) {
    using google::protobuf::util::TimeUtil;
    const bool is_text = node.kind == Kind::kString;
    if (auto* const duration = dynamic_cast<google::protobuf::Duration*>(&into)) {
      if (is_text && TimeUtil::FromString(node.text, duration)) return base::ok_status();
      return base::invalid_argument(R"({}: must be a time in seconds such as "90s" or "1.5s")", path);
    }
    auto* const moment = dynamic_cast<google::protobuf::Timestamp*>(&into);
    if (is_text && moment != nullptr && TimeUtil::FromString(node.text, moment)) return base::ok_status();
    return base::invalid_argument(R"({}: must be a moment such as "2026-06-20T17:05:53Z")", path);
  }

  // Sets or adds one value.
  static base::Status scalar(const JsonNode& node, Message& into, const FieldDescriptor& field,
                             const std::string& path) {
    const Place place{into, field, path};
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        if (node.kind != Kind::kBool) return base::invalid_argument("{}: must be true or false", path);
        return put(place, &Reflection::SetBool, &Reflection::AddBool, node.is_true);
      case FieldDescriptor::CPPTYPE_STRING:
        return text(node, place);
      case FieldDescriptor::CPPTYPE_ENUM:
        return enumerator(node, place);
      case FieldDescriptor::CPPTYPE_INT32:
        return whole_number(node, place, &Reflection::SetInt32, &Reflection::AddInt32);
      case FieldDescriptor::CPPTYPE_INT64:
        return whole_number(node, place, &Reflection::SetInt64, &Reflection::AddInt64);
      case FieldDescriptor::CPPTYPE_UINT32:
        return whole_number(node, place, &Reflection::SetUInt32, &Reflection::AddUInt32);
      case FieldDescriptor::CPPTYPE_UINT64:
        return whole_number(node, place, &Reflection::SetUInt64, &Reflection::AddUInt64);
      default:
        return fraction(node, place);
    }
  }

  // A field of a message, and its path in the document.
  struct Place {
    Message& into;
    const FieldDescriptor& field;
    const std::string& path;
  };
  template <typename Value>
  using Put = void (Reflection::*)(Message*, const FieldDescriptor*, Value) const;

  template <typename Value>
  static base::Status put(const Place& place, Put<Value> set, Put<Value> add, Value value) {
    const Reflection& access = *place.into.GetReflection();
    (access.*(place.field.is_repeated() ? add : set))(&place.into, &place.field, value);
    return base::ok_status();
  }

  template <typename Number>
  static base::Status whole_number(const JsonNode& node, const Place& place, Put<Number> set, Put<Number> add) {
    const auto number = number_of<Number>(node);
    if (number) return put(place, set, add, *number);
    return base::invalid_argument("{}: must be a whole number from {} to {}", place.path,
                                  std::numeric_limits<Number>::min(), std::numeric_limits<Number>::max());
  }

  static base::Status fraction(const JsonNode& node, const Place& place) {
    const auto number = number_of<double>(node);
    if (!number || !std::isfinite(*number)) return base::invalid_argument("{}: must be a number", place.path);
    if (place.field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
      return put(place, &Reflection::SetDouble, &Reflection::AddDouble, *number);
    }
    return put(place, &Reflection::SetFloat, &Reflection::AddFloat, static_cast<float>(*number));
  }

  static base::Status text(const JsonNode& node, const Place& place) {
    const bool is_bytes = place.field.type() == FieldDescriptor::TYPE_BYTES;
    MUSTER_ASSIGN_OR_RETURN(std::string content, is_bytes ? bytes_of(node, place.path) : string_of(node, place.path));
    const Reflection& access = *place.into.GetReflection();
    if (place.field.is_repeated()) {
      access.AddString(&place.into, &place.field, std::move(content));
    } else {
      access.SetString(&place.into, &place.field, std::move(content));
    }
    return base::ok_status();
  }

  static base::Result<std::string> string_of(const JsonNode& node, const std::string& path) {
    if (node.kind != Kind::kString) return base::invalid_argument("{}: must be a string", path);
    if (!base::is_utf8(node.text)) return base::invalid_argument("{}: must be UTF-8 text", path);
    return node.text;
  }

  static base::Result<std::string> bytes_of(const JsonNode& node, const std::string& path) {
    if (node.kind == Kind::kString && base::is_utf8(node.text)) return node.text;
    const bool is_pair = node.kind == Kind::kObject && node.keys == std::vector<std::string>{"base64"} &&
                         node.items.front().kind == Kind::kString;
    const auto decoded = is_pair ? base::decode_base64(node.items.front().text, base::Base64::kLenient) : std::nullopt;
    if (decoded) return *decoded;
    return base::invalid_argument(R"({}: must be a string of UTF-8, or {{"base64": "..."}} for other bytes)", path);
  }

  static base::Status enumerator(const JsonNode& node, const Place& place) {
    const google::protobuf::EnumDescriptor& type = *place.field.enum_type();
    const EnumValueDescriptor* const found = node.kind == Kind::kString ? find_enumerator(type, node.text) : nullptr;
    if (found != nullptr) return put(place, &Reflection::SetEnum, &Reflection::AddEnum, found);
    return base::invalid_argument("{}: must be one of: {}", place.path, fmt::join(short_names(type), ", "));
  }

  static base::Status unknown_field(const Descriptor& type, const std::string& key, const std::string& name) {
    std::vector<std::string> known;
    for (int i = 0; i < type.field_count(); ++i) known.push_back(type.field(i)->name());
    const auto nearest = base::nearest_word(key, known);
    const std::string advice = nearest ? fmt::format("; did you mean {}?", *nearest) : "";
    return base::invalid_argument("{}: is no field of {}{}", name, type.name(), advice);
  }
};

// Returns the values of a field in a query as JSON would have them.
base::Result<JsonNode> node_of(const FieldDescriptor& field, std::string_view text) {
  JsonNode node{.kind = Kind::kString, .text = std::string(text)};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    node.kind = Kind::kBool;
    node.is_true = text == "1" || text == "true";
    if (!node.is_true && text != "0" && text != "false") {
      return base::invalid_argument("{}: must be 1 or 0", field.name());
    }
  }
  if (!field.is_repeated()) return node;
  JsonNode list{.kind = Kind::kArray};
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
    const auto numbers = base::parse_number_list(text, kMostNumber);
    if (!numbers || numbers->size() > kMostNumbers) {
      return base::invalid_argument("{}: must be numbers or ranges such as 0-3,7, at most {} numbers of at most {}",
                                    field.name(), kMostNumbers, kMostNumber);
    }
    for (const int number : *numbers) list.items.push_back({.kind = Kind::kNumber, .text = std::to_string(number)});
    return list;
  }
  for (const std::string_view part : base::split(text, ',')) {
    if (!part.empty()) list.items.push_back({.kind = Kind::kString, .text = std::string(part)});
  }
  return list;
}

}  // namespace

base::Status parse_plain_json(std::string_view json, Message& message) {
  auto node = base::parse_json(json);
  if (!node.ok()) return node.status().with_context("body");
  return PlainReader().object(*node, message, "");
}

base::Status set_field_from_text(std::string_view field, std::string_view text, Message& message) {
  const std::string name(field);
  const FieldDescriptor* const found = message.GetDescriptor()->FindFieldByName(name);
  const bool is_nested = found != nullptr && found->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                         (found->is_repeated() || !is_time(*found->message_type()));
  if (found == nullptr || is_nested) {
    return base::invalid_argument("{}: is no argument of this path",
                                  base::shortened(base::printable(name), kLongestName));
  }
  MUSTER_ASSIGN_OR_RETURN(JsonNode value, node_of(*found, text));
  JsonNode whole{.kind = Kind::kObject};
  whole.keys.push_back(name);
  whole.items.push_back(std::move(value));
  return PlainReader().object(whole, message, "");
}

base::Status set_field_from_path(std::string_view field, const std::string& value, Message& message) {
  const FieldDescriptor* const found = message.GetDescriptor()->FindFieldByName(std::string(field));
  MUSTER_CHECK(found != nullptr && found->type() == FieldDescriptor::TYPE_STRING && !found->is_repeated());
  const std::string given = message.GetReflection()->GetString(message, found);
  if (!given.empty() && given != value) {
    return base::invalid_argument("{}: differs from the one in the path: leave it out", field);
  }
  if (!base::is_utf8(value)) return base::invalid_argument("{}: must be UTF-8 text", field);
  message.GetReflection()->SetString(&message, found, value);
  return base::ok_status();
}

std::string log_line(const v1::LogChunk& chunk) {
  constexpr std::string_view kEmpty = R"("data":"")";
  v1::LogChunk rest = chunk;
  rest.clear_data();
  std::string line = message_line(rest);
  // No text within the line can hold this, because quotes have backslashes there.
  const std::size_t at = line.find(kEmpty);
  MUSTER_CHECK(at != std::string::npos);
  std::string data = "\"text\":" + base::json_quoted(chunk.data());
  if (!base::is_utf8(chunk.data()))
    data += fmt::format(R"(,"data":{{"base64":"{}"}})", base::encode_base64(chunk.data()));
  return line.replace(at, kEmpty.size(), data);
}

}  // namespace muster::proto
