#include "launcherd/web/rest_request.h"

#include <limits>
#include <utility>

#include "base/hmac.h"
#include "base/strings.h"
#include "launcherd/web/http_error.h"
#include "proto/plain_json.h"

namespace muster::launcherd::inline web {
namespace {

using google::protobuf::Message;

constexpr std::size_t kPrefixWords = 2;  // "api" and "v1"

// True for the path that the call Exec would have.
bool needs_both_ways(std::span<const std::string> path) {
  return path.size() == 3 && path.front() == "jobs" && path.back() == "exec";
}

RestRefusal refusal(base::Status error) {
  const int status = http_status(error.code());
  return {status, std::move(error)};
}

base::Status check_token(const HttpRequest& request, const std::string& write_token) {
  if (write_token.empty()) {
    return base::permission_denied("launcherd runs without --http-write: this port only reads");
  }
  // A page from elsewhere cannot set the Authorization header without our consent. This is a second lock.
  if (!request.origin.empty() && request.origin != "http://" + request.host) {
    return base::permission_denied("requests of pages from elsewhere are refused");
  }
  if (request.token.empty()) {
    return base::unauthenticated(
        "this call needs the header 'Authorization: Bearer TOKEN' with the token in http-token");
  }
  if (!base::is_equal_in_constant_time(request.token, write_token)) {
    return base::unauthenticated("not the token of this launcherd: it is in http-token in the state directory");
  }
  return base::ok_status();
}

bool is_json(std::string_view content_type) {
  return content_type.empty() ||
         base::lower(base::trim(content_type.substr(0, content_type.find(';')))) == "application/json";
}

base::Status read_query(const RestHead& head, Message& message) {
  const std::string_view in_path = head.match.route->path_field();
  for (const auto& [name, value] : head.target.query) {
    if (name == in_path) return base::invalid_argument("{}: belongs in the path", name);
    MUSTER_RETURN_IF_ERROR(proto::set_field_from_text(name, value, message));
  }
  return base::ok_status();
}

// Continues behind the event that the client got last.
base::Status read_last_event(const RestRoute& route, const std::string& last_event_id, Message& message) {
  if (last_event_id.empty() || route.stream == nullptr || route.stream->resume_field.empty()) return base::ok_status();
  const auto last = base::parse_decimal(last_event_id, std::numeric_limits<long>::max() - 1);
  if (!last) return base::invalid_argument("Last-Event-ID: must be the id of an event");
  return proto::set_field_from_text(route.stream->resume_field, std::to_string(*last + route.stream->step), message);
}

}  // namespace

bool is_rest_target(std::string_view target) {
  return target.starts_with(kRestPrefix);
}

std::variant<RestHead, RestRefusal> read_rest_head(const HttpRequest& request, const std::string& write_token) {
  if (!is_local_host_header(request.host)) {
    return RestRefusal{421, base::invalid_argument("launcherd serves its own machine only: use http://localhost")};
  }
  auto target = parse_web_target(request.target);
  if (!target || target->path.size() <= kPrefixWords) return refusal(base::invalid_argument("invalid path"));
  RestHead head{.match = {}, .target = *std::move(target)};
  const std::span<const std::string> words = std::span<const std::string>(head.target.path).subspan(kPrefixWords);
  const bool is_document = words.size() == 1 && words.front() == "openapi.json";
  if (is_document && request.method == "GET") return head;
  std::string allowed = is_document ? "GET" : "";
  auto match = find_rest_route(request.method, words, allowed);
  if (!match && needs_both_ways(words)) {
    return refusal(base::unimplemented(
        "exec needs streams both ways, which this interface lacks: use muster exec, gRPC or muster.client"));
  }
  if (!match && allowed.empty()) return refusal(base::not_found("no such path: /api/v1/openapi.json lists all"));
  if (!match) return RestRefusal{405, base::unimplemented("this path serves {} only", allowed), allowed};
  head.match = *std::move(match);
  if (!head.match.route->is_write()) return head;
  if (base::Status status = check_token(request, write_token); !status.ok()) return refusal(std::move(status));
  return head;
}

std::variant<std::unique_ptr<Message>, RestRefusal> read_rest_message(const RestHead& head,
                                                                      const HttpRequest& request) {
  const RestRoute& route = *head.match.route;
  std::unique_ptr<Message> message = route.make_request();
  base::Status status;
  if (!route.is_write()) {
    status = read_query(head, *message);
    if (status.ok()) status = read_last_event(route, request.last_event_id, *message);
  } else if (!head.target.query.empty()) {
    status = base::invalid_argument("arguments of POST belong in the body, as JSON");
  } else if (!request.body.empty()) {
    if (!is_json(request.content_type)) {
      return RestRefusal{415, base::invalid_argument("the body must have the Content-Type application/json")};
    }
    status = proto::parse_plain_json(request.body, *message);
  }
  // Too deep or too many values: no fault of the server, and no better later.
  if (status.code() == base::Code::kResourceExhausted) status = base::invalid_argument("{}", status.message());
  if (status.ok() && !route.path_field().empty()) {
    status = proto::set_field_from_path(route.path_field(), head.match.path_value, *message);
  }
  if (!status.ok()) return refusal(std::move(status));
  return message;
}

}  // namespace muster::launcherd::web
