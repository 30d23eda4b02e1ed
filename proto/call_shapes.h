// Describes the calls of the service Launcher, for programs and documents that derive something from each call. The
// descriptions come from launcher.proto, so a new call is there as soon as it is in that file. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::proto {

struct CallShape {
  std::string name;     // "GetJob"
  std::string request;  // "GetJobRequest"
  std::string reply;    // "Job"
  bool streams_requests = false;
  bool streams_replies = false;
  std::string comment;  // the comment in launcher.proto, as one line
};

// Returns the calls in the order of launcher.proto.
std::vector<CallShape> launcher_calls();

// A field that a URL's query can set (set_field_from_text in proto/plain_json.h).
struct QueryField {
  std::string name;
  std::string schema;    // JSON Schema of its text
  bool is_list = false;  // values with commas
  std::string comment;
};

// Returns such fields of the message muster.v1.<type>, without the one called `left_out`.
std::vector<QueryField> query_fields(std::string_view type, std::string_view left_out);

// Returns the members of an object: a JSON Schema for each message and enumeration that these messages of muster.v1
// use, and for themselves, as proto/plain_json.h and proto/message_json.h have them. References are to
// "#/components/schemas/NAME".
std::string message_schemas(const std::vector<std::string>& types);

// Returns true if a message muster.v1.<type> may hold a field of type `bytes`, directly or in nested messages.
bool has_bytes(std::string_view type);

}  // namespace muster::proto
