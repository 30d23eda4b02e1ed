#include "proto/message_json.h"

#include <google/protobuf/util/json_util.h>

#include "proto/text_fields.h"

namespace muster::proto {

std::string message_line(const google::protobuf::Message& message) {
  if (const auto mended = mended_copy(message)) return message_line(*mended);
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string line;
  const auto status = google::protobuf::util::MessageToJsonString(message, &line, options);
  MUSTER_CHECK(status.ok());
  return line + "\n";
}

base::Status parse_message(std::string_view json, google::protobuf::Message& message) {
  const auto status = google::protobuf::util::JsonStringToMessage({json.data(), json.size()}, &message);
  if (status.ok()) return base::ok_status();
  return base::invalid_argument("{}", std::string(status.message()));
}

}  // namespace muster::proto
