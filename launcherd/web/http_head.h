// What Beast reads of a request, within our limits. For this folder, and for the fuzzer, which has no sockets.
#pragma once

#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/parser.hpp>

#include <optional>

#include "launcherd/web/http_exchange.h"
#include "launcherd/web/web_route.h"

namespace muster::launcherd::inline web {

inline constexpr std::uint32_t kMaxHttpHead = 8 * 1024;

using HttpParser = boost::beast::http::request_parser<boost::beast::http::empty_body>;

// Before anything is read: a head has kMaxHttpHead bytes, a body none.
void set_limits(HttpParser& parser);

// After an error of reading: what the peer is told; nullopt: nothing, it has gone or sent half a request.
std::optional<WebRefusal> refusal_of(const boost::system::error_code& failed);

// Of a parser that is done.
HttpRequest request_of(const HttpParser& parser);

}  // namespace muster::launcherd::web
