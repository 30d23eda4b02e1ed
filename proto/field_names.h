// Finds fields and enumerators of muster.v1 by the names that JSON and URLs have for them. Private to proto.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace google::protobuf {
class Descriptor;
class EnumDescriptor;
class EnumValueDescriptor;
class FieldDescriptor;
}  // namespace google::protobuf

namespace muster::proto {

// Finds "working_directory", or "workingDirectory" as proto3 JSON also allows. nullptr if there is no such field.
const google::protobuf::FieldDescriptor* find_field(const google::protobuf::Descriptor& type, const std::string& name);

// Finds "JOB_STATE_RUNNING", or "running". nullptr if there is no such enumerator.
const google::protobuf::EnumValueDescriptor* find_enumerator(const google::protobuf::EnumDescriptor& type,
                                                             std::string_view name);

// Returns the short names: "queued", "running", ….
std::vector<std::string> short_names(const google::protobuf::EnumDescriptor& type);

// True for Duration and Timestamp, which JSON has as strings.
bool is_time(const google::protobuf::Descriptor& type);

}  // namespace muster::proto
