#include "launcherd/service/grpc_status.h"

#include <string_view>

#include "base/strings.h"
#include "launcherd/service/error_field.h"
#include "proto/wire/rpc_status.pb.h"

namespace muster::launcherd::inline service {
namespace {

constexpr std::string_view kDomain = "muster";

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
