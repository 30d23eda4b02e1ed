// Sets Beast's limits for a request and converts Beast's result. The fuzzer uses it too, without sockets.
#pragma once

#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

#include <optional>

#include "launcherd/web/http_exchange.h"
#include "launcherd/web/web_route.h"

namespace muster::launcherd::inline web {

inline constexpr std::uint32_t kMaxHttpHead = 8 * 1024;
inline constexpr std::size_t kMaxHttpBody = std::size_t{4} << 20;  // as gRPC's for a message

using HttpParser = boost::beast::http::request_parser<boost::beast::http::string_body>;

// Call it before reading. It limits the header to kMaxHttpHead bytes, and the body to kMaxHttpBody.
void set_limits(HttpParser& parser);

// Returns the reply to a failed read. nullopt means no reply, because the peer has left or sent only a part of a
// request.
std::optional<WebRefusal> refusal_of(const boost::system::error_code& failed);

// Call it after the header was read. Returns true if a body longer than `limit` follows. A body whose length comes with
// its pieces is longer than 0 only.
bool has_longer_body(const HttpParser& parser, std::size_t limit);
// True if the peer waits for "100 Continue" before it sends the body.
bool expects_continue(const HttpParser& parser);

// Converts what the parser has read: the header, or the whole request.
HttpRequest request_of(const HttpParser& parser);

}  // namespace muster::launcherd::web
