#include "launcherd/web/http_error.h"

#include "base/json.h"
#include "launcherd/service/error_field.h"

namespace muster::launcherd::inline web {

int http_status(base::Code code) {
  switch (code) {
    case base::Code::kOk:
      return 200;
    case base::Code::kInvalidArgument:
    case base::Code::kOutOfRange:
      return 400;
    case base::Code::kUnauthenticated:
      return 401;
    case base::Code::kPermissionDenied:
      return 403;
    case base::Code::kNotFound:
      return 404;
    case base::Code::kAlreadyExists:
    case base::Code::kAborted:
    case base::Code::kFailedPrecondition:
      return 409;
    case base::Code::kResourceExhausted:
      return 429;
    case base::Code::kUnimplemented:
      return 501;
    case base::Code::kUnavailable:
    case base::Code::kCancelled:
      return 503;
    case base::Code::kDeadlineExceeded:
      return 504;
    case base::Code::kUnknown:
    case base::Code::kInternal:
    case base::Code::kDataLoss:
      break;
  }
  return 500;
}

std::string error_json(const base::Status& status) {
  const std::string_view field = field_of(status.message());
  return fmt::format("{{\"code\":{},\"message\":{}{}}}", base::json_quoted(base::code_name(status.code())),
                     base::json_quoted(status.message()),
                     field.empty() ? "" : ",\"field\":" + base::json_quoted(field));
}

void refuse(const std::shared_ptr<HttpExchange>& exchange, const base::Status& status) {
  refuse_as(exchange, http_status(status.code()), status);
}

void refuse_as(const std::shared_ptr<HttpExchange>& exchange, int http_status, const base::Status& status) {
  exchange->answer(http_status, "application/json", error_json(status) + "\n");
}

}  // namespace muster::launcherd::web
