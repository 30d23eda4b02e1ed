#include "proto/field_names.h"

#include <google/protobuf/descriptor.h>

#include "base/strings.h"

namespace muster::proto {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;

// Returns "running" for JOB_STATE_RUNNING. The first enumerator of each type is <PREFIX>UNSPECIFIED.
std::string short_name(const EnumDescriptor& type, const EnumValueDescriptor& value) {
  constexpr std::string_view kFirst = "UNSPECIFIED";
  const std::string& first = type.value(0)->name();
  const std::size_t prefix = std::string_view(first).ends_with(kFirst) ? first.size() - kFirst.size() : 0;
  return base::lower(std::string_view(value.name()).substr(std::min(prefix, value.name().size())));
}

}  // namespace

const FieldDescriptor* find_field(const Descriptor& type, const std::string& name) {
  if (const FieldDescriptor* const found = type.FindFieldByName(name)) return found;
  return type.FindFieldByCamelcaseName(name);
}

const EnumValueDescriptor* find_enumerator(const EnumDescriptor& type, std::string_view name) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->name() == name || short_name(type, *type.value(i)) == name) return type.value(i);
  }
  return nullptr;
}

std::vector<std::string> short_names(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) names.push_back(short_name(type, *type.value(i)));
  return names;
}

bool is_time(const Descriptor& type) {
  return type.full_name() == "google.protobuf.Duration" || type.full_name() == "google.protobuf.Timestamp";
}

}  // namespace muster::proto
