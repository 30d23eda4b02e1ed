#include "proto/message_json.h"

#include <google/protobuf/util/json_util.h>

#include "base/status.h"

namespace muster::proto {

std::string message_line(const google::protobuf::Message& message) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  MUSTER_CHECK(status.ok());
  return line + "\n";
}

}  // namespace muster::proto
