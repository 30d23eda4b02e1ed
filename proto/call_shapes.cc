// The descriptors of the API's contracts, and what is derived from them: calls, arguments, and JSON Schemas.
// Read launcher_calls() first, then SchemaWriter.
#include "proto/call_shapes.h"

#include <map>
#include <memory>
#include <set>
#include <utility>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include "base/json.h"
#include "base/status.h"
#include "base/strings.h"
#include "proto/contract_descriptors.h"
#include "proto/field_names.h"

namespace muster::proto {
namespace {

using base::json_quoted;
using google::protobuf::Descriptor;
using google::protobuf::DescriptorPool;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

constexpr std::string_view kPackage = "muster.v1.";

std::unique_ptr<const DescriptorPool> read_contracts() {
  google::protobuf::FileDescriptorSet files;
  const std::string_view bytes = contract_descriptors();
  MUSTER_CHECK(files.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())));
  auto pool = std::make_unique<DescriptorPool>();
  for (const auto& file : files.file()) MUSTER_CHECK(pool->BuildFile(file) != nullptr);
  return pool;
}

const DescriptorPool& contracts() {
  static const std::unique_ptr<const DescriptorPool> kPool = read_contracts();
  return *kPool;
}

const Descriptor& message_type(std::string_view name) {
  const Descriptor* const found = contracts().FindMessageTypeByName(std::string(kPackage) + std::string(name));
  MUSTER_CHECK(found != nullptr);
  return *found;
}

// Returns the comments before and behind a declaration as one line.
template <typename Declaration>
std::string comment_of(const Declaration& declaration) {
  google::protobuf::SourceLocation place;
  if (!declaration.GetSourceLocation(&place)) return "";
  std::string line;
  for (const std::string& comment : {place.leading_comments, place.trailing_comments}) {
    for (const std::string_view part : base::split(comment, '\n')) {
      const std::string_view words = base::trim(part);
      if (words.empty()) continue;
      if (!line.empty()) line += ' ';
      line += words;
    }
  }
  return line;
}

std::string name_of_type(const std::string& full_name) {
  return full_name.starts_with(kPackage) ? full_name.substr(kPackage.size()) : full_name;
}

std::string reference_to(const std::string& full_name) {
  return fmt::format(R"({{"$ref":"#/components/schemas/{}"}})", name_of_type(full_name));
}

// Returns a member of an object that describes something. Empty without a comment.
std::string description_member(const std::string& comment) {
  return comment.empty() ? "" : fmt::format(R"("description":{},)", json_quoted(comment));
}

// Writes the schemas of messages and of all that they use, each once.
class SchemaWriter {
 public:
  void add(const Descriptor& type) {
    if (is_time(type) || !schemas_.emplace(name_of_type(type.full_name()), "").second) return;
    std::string members;
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (!members.empty()) members += ',';
      if (is_output(field)) members += R"("text":{"type":"string","description":"the bytes as text"},)";
      members += fmt::format(R"({}:{})", json_quoted(field.name()), member(field));
    }
    schemas_[name_of_type(type.full_name())] =
        fmt::format(R"({{{}"type":"object","properties":{{{}}}}})", description_member(comment_of(type)), members);
  }
  // The schema of one value of the field.
  std::string value(const FieldDescriptor& field) {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        return message(*field.message_type());
      case FieldDescriptor::CPPTYPE_ENUM:
        add(*field.enum_type());
        return reference_to(field.enum_type()->full_name());
      case FieldDescriptor::CPPTYPE_STRING:
        return field.type() == FieldDescriptor::TYPE_BYTES ? bytes() : R"({"type":"string"})";
      case FieldDescriptor::CPPTYPE_BOOL:
        return R"({"type":"boolean"})";
      case FieldDescriptor::CPPTYPE_INT32:
        return R"({"type":"integer","format":"int32"})";
      case FieldDescriptor::CPPTYPE_UINT32:
        return R"({"type":"integer","format":"int64","minimum":0,"maximum":4294967295})";
      case FieldDescriptor::CPPTYPE_INT64:
      case FieldDescriptor::CPPTYPE_UINT64:
        return R"({"type":["string","integer"],"format":"int64"})";
      default:
        return R"({"type":"number"})";
    }
  }
  std::string take() {
    std::string all;
    for (const auto& [name, schema] : std::exchange(schemas_, {})) {
      if (!all.empty()) all += ',';
      all += fmt::format("{}:{}", json_quoted(name), schema);
    }
    return all;
  }

 private:
  static bool is_output(const FieldDescriptor& field) { return field.full_name() == "muster.v1.LogChunk.data"; }

  std::string member(const FieldDescriptor& field) {
    const std::string one = value(field);
    const std::string schema = field.is_repeated() ? fmt::format(R"({{"type":"array","items":{}}})", one) : one;
    const std::string comment = description_member(comment_of(field));
    return comment.empty() ? schema : "{" + comment + schema.substr(1);
  }

  std::string message(const Descriptor& type) {
    if (type.name() == "Duration") return R"({"type":"string","pattern":"^-?[0-9]+([.][0-9]+)?s$"})";
    if (type.name() == "Timestamp") return R"({"type":"string","format":"date-time"})";
    add(type);
    return reference_to(type.full_name());
  }

  // Short names of enumerators are accepted, too.
  void add(const EnumDescriptor& type) {
    std::vector<std::string> names;
    for (int i = 0; i < type.value_count(); ++i) names.push_back(json_quoted(type.value(i)->name()));
    for (const std::string& name : short_names(type)) names.push_back(json_quoted(name));
    schemas_.emplace(name_of_type(type.full_name()),
                     fmt::format(R"({{{}"type":"string","enum":[{}]}})", description_member(comment_of(type)),
                                 fmt::join(names, ",")));
  }

  std::string bytes() {
    schemas_.emplace(
        "Bytes", R"({"description":"bytes: a string of UTF-8, or base64 for other bytes","oneOf":[{"type":"string"},)"
                 R"({"type":"object","properties":{"base64":{"type":"string"}},"required":["base64"]}]})");
    return R"({"$ref":"#/components/schemas/Bytes"})";
  }

  std::map<std::string, std::string> schemas_;
};

bool reaches_bytes(const Descriptor& type, std::set<const Descriptor*>& seen) {
  if (!seen.insert(&type).second) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.type() == FieldDescriptor::TYPE_BYTES) return true;
    if (field.message_type() != nullptr && reaches_bytes(*field.message_type(), seen)) return true;
  }
  return false;
}

}  // namespace

std::vector<CallShape> launcher_calls() {
  const auto* const service = contracts().FindServiceByName(std::string(kPackage) + "Launcher");
  MUSTER_CHECK(service != nullptr);
  std::vector<CallShape> calls;
  for (int i = 0; i < service->method_count(); ++i) {
    const auto& method = *service->method(i);
    calls.push_back({.name = method.name(),
                     .request = method.input_type()->name(),
                     .reply = method.output_type()->name(),
                     .streams_requests = method.client_streaming(),
                     .streams_replies = method.server_streaming(),
                     .comment = comment_of(method)});
  }
  return calls;
}

std::vector<QueryField> query_fields(std::string_view type, std::string_view left_out) {
  std::vector<QueryField> fields;
  const Descriptor& message = message_type(type);
  for (int i = 0; i < message.field_count(); ++i) {
    const FieldDescriptor& field = *message.field(i);
    const bool is_nested = field.message_type() != nullptr && (field.is_repeated() || !is_time(*field.message_type()));
    if (field.name() == left_out || is_nested) continue;
    const bool is_number_list = field.is_repeated() && field.cpp_type() == FieldDescriptor::CPPTYPE_INT32;
    const std::string one = SchemaWriter().value(field);
    std::string schema = field.is_repeated() ? fmt::format(R"({{"type":"array","items":{}}})", one) : one;
    if (is_number_list) schema = R"({"type":"string","examples":["0-3,7"]})";
    fields.push_back({.name = field.name(),
                      .schema = std::move(schema),
                      .is_list = field.is_repeated() && !is_number_list,
                      .comment = comment_of(field)});
  }
  return fields;
}

std::string message_schemas(const std::vector<std::string>& types) {
  SchemaWriter writer;
  for (const std::string& type : types) writer.add(message_type(type));
  return writer.take();
}

bool has_bytes(std::string_view type) {
  std::set<const Descriptor*> seen;
  return reaches_bytes(message_type(type), seen);
}

}  // namespace muster::proto
