// Sets Beast's limits for a request and converts Beast's result. The fuzzer uses it too, without sockets.
#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <optional>

#include "launcherd/web/http_exchange.h"
#include "launcherd/web/web_route.h"

namespace muster::launcherd::inline web {

inline constexpr std::uint32_t kMaxHttpHead = 8 * 1024;

using HttpParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

// Call it before reading. It limits the header to kMaxHttpHead bytes and allows no body.
void set_limits(HttpParser& parser);

// Returns the reply to a failed read. nullopt means no reply, because the peer has left or sent only a part of a
// request.
std::optional<WebRefusal> refusal_of(const boost::system::error_code& failed);

// Converts the result of a finished parser.
HttpRequest request_of(const HttpParser& parser);

}  // namespace muster::launcherd::web
