// Reads messages of muster.v1 from JSON as people and shell scripts write it: proto3 JSON with original field names,
// but a `bytes` field is a string, which stands for its UTF-8 bytes. Bytes that are no UTF-8 are {"base64": "..."}. So
// a command is ["sleep", "10"], and no text can be mistaken for base64. Pure.
//
// Each error names the field: "spec.hosts[1].slots: must be a whole number".
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace google::protobuf {
class Message;
}

namespace muster::v1 {
class LogChunk;
}

namespace muster::proto {

// Sets the fields of the JSON object `json` in `message`. INVALID_ARGUMENT: it is no JSON object, or a field is
// unknown, given twice, or wrong. RESOURCE_EXHAUSTED: the document is too deep or has too many values. `message` is
// then partly set.
base::Status parse_plain_json(std::string_view json, google::protobuf::Message& message);

// Sets one field from text, as a URL's query has it: "a,b" and "0-3,8" for repeated fields, "1" for true, "running" for
// an enumerator. INVALID_ARGUMENT: the message lacks the field, or the text is wrong.
base::Status set_field_from_text(std::string_view field, std::string_view text, google::protobuf::Message& message);

// Sets the field that the path of a URL has named. INVALID_ARGUMENT: the message has another value there already.
base::Status set_field_from_path(std::string_view field, const std::string& value, google::protobuf::Message& message);

// Returns a chunk of output as one line of JSON. `data` is replaced by `text`, in which U+FFFD stands for bytes that
// are no UTF-8. Only then `data` is there too, as {"base64": "..."}.
std::string log_line(const v1::LogChunk& chunk);

}  // namespace muster::proto
