// Converts messages of muster.v1 to JSON and back: proto3 JSON, original field names, all fields present. Pure.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::proto {

// Returns one line, with its newline. Text that is not UTF-8 is repaired (text_fields.h).
std::string message_line(const google::protobuf::Message& message);

// INVALID_ARGUMENT if `json` is not valid JSON or has a field that the message lacks.
base::Status parse_message(std::string_view json, google::protobuf::Message& message);

}  // namespace muster::proto
