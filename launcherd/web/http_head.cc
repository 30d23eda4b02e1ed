#include "launcherd/web/http_head.h"

#include <boost/beast/core/string.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>

#include <string>

namespace muster::launcherd::inline web {

namespace http = boost::beast::http;

void set_limits(HttpParser& parser) {
  parser.header_limit(kMaxHttpHead);
  parser.body_limit(kMaxHttpBody);
}

std::optional<WebRefusal> refusal_of(const boost::system::error_code& failed) {
  if (failed == http::error::header_limit) return WebRefusal{431, "the header of the request is too long\n"};
  if (failed == http::error::body_limit)
    return WebRefusal{413, "the body of the request is too long, or the path takes none\n"};
  const bool is_malformed = failed.category() == http::make_error_code(http::error::bad_method).category();
  if (!is_malformed || failed == http::error::end_of_stream || failed == http::error::partial_message) {
    return std::nullopt;
  }
  return WebRefusal{400, "not a valid HTTP request\n"};
}

bool has_longer_body(const HttpParser& parser, std::size_t limit) {
  const auto length = parser.content_length();
  if (length) return *length > limit;
  return parser.chunked() && limit == 0;
}

bool expects_continue(const HttpParser& parser) {
  return boost::beast::iequals(parser.get()[http::field::expect], "100-continue");
}

HttpRequest request_of(const HttpParser& parser) {
  const auto& message = parser.get();
  const auto text = [](boost::beast::string_view view) { return std::string(view.data(), view.size()); };
  HttpRequest request;
  request.method = text(message.method_string());
  request.target = text(message.target());
  request.host = text(message[http::field::host]);
  request.last_event_id = text(message["Last-Event-ID"]);
  request.origin = text(message[http::field::origin]);
  request.token = text(message["X-Muster-Token"]);
  request.accept = text(message[http::field::accept]);
  request.content_type = text(message[http::field::content_type]);
  request.body = message.body();
  const auto authorization = message[http::field::authorization];
  constexpr boost::beast::string_view kBearer = "Bearer ";
  if (boost::beast::iequals(authorization.substr(0, kBearer.size()), kBearer)) {
    request.token = text(authorization.substr(kBearer.size()));
  }
  return request;
}

}  // namespace muster::launcherd::web
