#include "launcherd/service/grpc_status.h"

#include <algorithm>
#include <string_view>

#include "base/strings.h"
#include "proto/wire/rpc_status.pb.h"

namespace muster::launcherd::inline service {
namespace {

constexpr std::string_view kDomain = "muster";

// Returns the field at the beginning of the message: "spec.size" of "spec.size: 0 ranks …". Empty if there is no field.
std::string_view field_of(std::string_view message) {
  const std::string_view name = message.substr(0, message.find(": "));
  const bool is_name = name.size() < message.size() && !name.empty() &&
                       std::ranges::all_of(name, [](char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == '.'; });
  return is_name ? name : std::string_view();
}

std::string details_of(const base::Status& status, const std::string& message) {
  google::rpc::Status all;
  all.set_code(static_cast<int>(status.code()));
  all.set_message(message);
  google::rpc::ErrorInfo info;
  info.set_reason(std::string(base::code_name(status.code())));
  info.set_domain(std::string(kDomain));
  all.add_details()->PackFrom(info);
  const std::string_view field = field_of(message);
  if (status.code() == base::Code::kInvalidArgument && !field.empty()) {
    google::rpc::BadRequest bad;
    google::rpc::BadRequest::FieldViolation& violation = *bad.add_field_violations();
    violation.set_field(std::string(field));
    violation.set_description(message.substr(field.size() + 2));
    all.add_details()->PackFrom(bad);
  }
  return all.SerializeAsString();
}

}  // namespace

grpc::Status to_grpc(const base::Status& status) {
  if (status.ok()) return grpc::Status::OK;
  const std::string message = base::valid_utf8(status.message());
  return {static_cast<grpc::StatusCode>(status.code()), message, details_of(status, message)};
}

}  // namespace muster::launcherd::service
