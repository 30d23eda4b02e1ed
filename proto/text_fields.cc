#include "proto/text_fields.h"

#include <set>
#include <string>
#include <unordered_map>

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/stubs/logging.h>

#include "base/strings.h"

namespace muster::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

bool is_message(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
}

bool is_text(const FieldDescriptor& field) {
  return field.type() == FieldDescriptor::TYPE_STRING;
}

bool reaches_text(const Descriptor& type, std::set<const Descriptor*>& seen) {
  if (!seen.insert(&type).second) return false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (is_text(field) || (is_message(field) && reaches_text(*field.message_type(), seen))) return true;
  }
  return false;
}

// Returns true if messages of `type` can hold text. Caches the answer, because a job may have 100,000 messages.
bool may_hold_text(const Descriptor& type) {
  thread_local std::unordered_map<const Descriptor*, bool> known;
  const auto found = known.find(&type);
  if (found != known.end()) return found->second;
  std::set<const Descriptor*> seen;
  return known.emplace(&type, reaches_text(type, seen)).first->second;
}

bool is_to_be_seen(const FieldDescriptor& field) {
  return is_text(field) || (is_message(field) && may_hold_text(*field.message_type()));
}

// Returns the number of values. A `string` that is not repeated always has one, which may be empty.
int count(const Message& message, const FieldDescriptor& field) {
  if (field.is_repeated()) return message.GetReflection()->FieldSize(message, &field);
  return is_text(field) || message.GetReflection()->HasField(message, &field) ? 1 : 0;
}

const Message& inner(const Message& message, const FieldDescriptor& field, int index) {
  const auto& access = *message.GetReflection();
  return field.is_repeated() ? access.GetRepeatedMessage(message, &field, index) : access.GetMessage(message, &field);
}

const std::string& text(const Message& message, const FieldDescriptor& field, int index, std::string& scratch) {
  const auto& access = *message.GetReflection();
  return field.is_repeated() ? access.GetRepeatedStringReference(message, &field, index, &scratch)
                             : access.GetStringReference(message, &field, &scratch);
}

// Sets `path` to the path of the first bad field.
bool has_other_bytes(const Message& message, std::string& path) {
  std::string scratch;
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!is_to_be_seen(field)) continue;
    const int values = count(message, field);
    for (int j = 0; j < values; ++j) {
      const bool is_bad = is_text(field) ? !base::is_utf8(text(message, field, j, scratch))
                                         : has_other_bytes(inner(message, field, j), path);
      if (!is_bad) continue;
      path = path.empty() ? field.name() : field.name() + '.' + path;
      return true;
    }
  }
  return false;
}

// Returns true if a peer can read the message. protobuf checks the text then, with generated code. Reflection would
// first have to parse the descriptions of all messages, which takes a program that only starts a millisecond.
bool is_readable(const Message& message) {
  const google::protobuf::LogSilencer silent;  // protobuf logs each bad field
  const std::unique_ptr<Message> copy(message.New());
  return copy->ParsePartialFromString(message.SerializePartialAsString());
}

void mend_field(Message& message, const FieldDescriptor& field) {
  const auto& access = *message.GetReflection();
  std::string scratch;
  const int values = count(message, field);
  for (int j = 0; j < values; ++j) {
    if (is_message(field)) {
      mend_text(field.is_repeated() ? *access.MutableRepeatedMessage(&message, &field, j)
                                    : *access.MutableMessage(&message, &field));
      continue;
    }
    const std::string& now = text(message, field, j, scratch);
    if (base::is_utf8(now)) continue;
    std::string mended = base::valid_utf8(now);
    if (field.is_repeated()) {
      access.SetRepeatedString(&message, &field, j, std::move(mended));
    } else {
      access.SetString(&message, &field, std::move(mended));
    }
  }
}

}  // namespace

base::Status check_text(const Message& message) {
  if (is_readable(message)) return base::ok_status();
  std::string path;
  if (!has_other_bytes(message, path)) return base::ok_status();
  return base::invalid_argument("{}: must be UTF-8 text, but holds other bytes", path);
}

void mend_text(Message& message) {
  if (is_readable(message)) return;
  std::string path;
  if (!has_other_bytes(message, path)) return;
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (is_to_be_seen(field)) mend_field(message, field);
  }
}

std::unique_ptr<Message> mended_copy(const Message& message) {
  if (is_readable(message)) return nullptr;
  std::string path;
  if (!has_other_bytes(message, path)) return nullptr;
  std::unique_ptr<Message> copy(message.New());
  copy->CopyFrom(message);
  mend_text(*copy);
  return copy;
}

}  // namespace muster::proto
