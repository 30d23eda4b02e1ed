// Messages of muster.v1 as JSON for people and programs: proto3 JSON, original field names, all fields present.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::proto {

// One line, with its newline. Text that is no UTF-8 is mended (text_fields.h).
std::string message_line(const google::protobuf::Message& message);

// The other way round. INVALID_ARGUMENT: no such JSON, or a field that the message does not have.
base::Status parse_message(std::string_view json, google::protobuf::Message& message);

}  // namespace muster::proto
