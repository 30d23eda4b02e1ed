#include "launcherd/web/http_head.h"

#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>

#include <string>

namespace muster::launcherd::inline web {

namespace http = boost::beast::http;

void set_limits(HttpParser& parser) {
  parser.header_limit(kMaxHttpHead);
  parser.body_limit(0);
}

std::optional<WebRefusal> refusal_of(const boost::system::error_code& failed) {
  if (failed == http::error::header_limit) return WebRefusal{431, "the header of the request is too long\n"};
  if (failed == http::error::body_limit) return WebRefusal{413, "requests must not have a body\n"};
  const bool is_malformed = failed.category() == http::make_error_code(http::error::bad_method).category();
  if (!is_malformed || failed == http::error::end_of_stream || failed == http::error::partial_message) {
    return std::nullopt;
  }
  return WebRefusal{400, "not a valid HTTP request\n"};
}

HttpRequest request_of(const HttpParser& parser) {
  const auto& message = parser.get();
  const auto text = [](boost::beast::string_view view) { return std::string(view.data(), view.size()); };
  return {text(message.method_string()),      text(message.target()),
          text(message[http::field::host]),   text(message["Last-Event-ID"]),
          text(message[http::field::origin]), text(message["X-Muster-Token"])};
}

}  // namespace muster::launcherd::web
