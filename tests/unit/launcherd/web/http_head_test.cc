#include "launcherd/web/http_head.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/http/error.hpp>

#include <gtest/gtest.h>

namespace muster::launcherd::http_head_test {
namespace {

namespace http = boost::beast::http;

// Returns the status of the reply to these bytes, after which the peer stops. 200 means a valid request, 0 means no
// reply.
int answered(const std::string& bytes, HttpRequest* request = nullptr) {
  HttpParser parser;
  set_limits(parser);
  parser.eager(true);
  boost::system::error_code failed;
  parser.put(boost::asio::buffer(bytes), failed);
  if (!failed && parser.is_done()) {
    if (request != nullptr) *request = request_of(parser);
    return 200;
  }
  const auto refusal = refusal_of(failed);
  return refusal ? refusal->http_status : 0;
}

TEST(HttpHead, WhatIsTakenOfARequest) {
  HttpRequest request;
  EXPECT_EQ(answered("GET /api?x=%41 HTTP/1.1\r\nhost: localhost\r\nLAST-EVENT-ID: 7\r\nX: y\r\n\r\n", &request), 200);
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.target, "/api?x=%41");
  EXPECT_EQ(request.host, "localhost");
  EXPECT_EQ(request.last_event_id, "7");
  EXPECT_EQ(answered("GET / HTTP/1.1\r\n\r\n", &request), 200);
  EXPECT_EQ(request.host, "");
}

TEST(HttpHead, WhatIsAnsweredToOtherBytes) {
  EXPECT_EQ(answered("\x16\x03\x01 hello\r\n\r\n"), 400);
  EXPECT_EQ(answered("GET / HTTP/9.9\r\n\r\n"), 400);
  EXPECT_EQ(answered("GET /" + std::string(9'000, 'x') + " HTTP/1.1\r\n\r\n"), 431);
  EXPECT_EQ(answered("POST / HTTP/1.1\r\nContent-Length: 4194305\r\n\r\n"), 413);
  EXPECT_EQ(refusal_of(http::error::end_of_stream), std::nullopt);
  EXPECT_EQ(refusal_of(http::error::partial_message), std::nullopt);
  EXPECT_EQ(refusal_of(boost::asio::error::connection_reset), std::nullopt);
}

TEST(HttpHead, TheTokenIsInOneOfTwoHeaders) {
  const auto token_of = [](const std::string& header) {
    HttpRequest request;
    EXPECT_EQ(answered("GET / HTTP/1.1\r\n" + header + "\r\n\r\n", &request), 200);
    return request.token;
  };
  EXPECT_EQ(token_of("Authorization: Bearer abc"), "abc");
  EXPECT_EQ(token_of("authorization: bearer abc"), "abc");
  EXPECT_EQ(token_of("X-Muster-Token: abc"), "abc");
  EXPECT_EQ(token_of("Authorization: Basic abc"), "");
  EXPECT_EQ(token_of("X-Muster-Token: a\r\nAuthorization: Bearer b"), "b");
}

TEST(HttpHead, KnowsWhetherABodyFollows) {
  const auto is_longer = [](const std::string& header, std::size_t limit) {
    HttpParser parser;
    set_limits(parser);
    boost::system::error_code failed;
    parser.put(boost::asio::buffer("POST / HTTP/1.1\r\n" + header + "\r\n"), failed);
    EXPECT_TRUE(parser.is_header_done()) << failed;
    return has_longer_body(parser, limit);
  };
  EXPECT_FALSE(is_longer("", 0));
  EXPECT_FALSE(is_longer("Content-Length: 0\r\n", 0));
  EXPECT_TRUE(is_longer("Content-Length: 1\r\n", 0));
  EXPECT_FALSE(is_longer("Content-Length: 5\r\n", 5));
  EXPECT_TRUE(is_longer("Transfer-Encoding: chunked\r\n", 0));
  EXPECT_FALSE(is_longer("Transfer-Encoding: chunked\r\n", 5));
}

TEST(HttpHead, TheBodyIsRead) {
  HttpRequest request;
  EXPECT_EQ(answered("POST / HTTP/1.1\r\nContent-Type: a/b\r\nAccept: c\r\nContent-Length: 5\r\n\r\nhello", &request),
            200);
  EXPECT_EQ(request.body, "hello");
  EXPECT_EQ(request.content_type, "a/b");
  EXPECT_EQ(request.accept, "c");
}

}  // namespace
}  // namespace muster::launcherd::http_head_test
