#include "rendezvous/horovod_request.h"

#include <gtest/gtest.h>

namespace muster::rendezvous::horovod_request_test {
namespace {

using State = HorovodRequestReader::State;
using Verb = HorovodRequest::Verb;

constexpr HorovodRequestLimits kLimits{.max_head_bytes = 256, .max_body_bytes = 10};

TEST(HorovodRequest, ReadsWhatTheClientSends) {
  struct Row {
    const char* bytes;
    Verb verb;
    const char* scope;
    const char* key;
    const char* body;
  };
  const Row table[] = {
      {"GET /global/rank_3 HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n", Verb::kGet, "global", "rank_3",
       ""},
      {"PUT /local_n-1.x_y/0 HTTP/1.1\r\nHost: n1\r\nContent-Length: 5\r\n\r\nhello", Verb::kPut, "local_n-1.x_y", "0",
       "hello"},
      {"DELETE /cross_12/7 HTTP/1.1\r\nHost: n1\r\nContent-Length: 0\r\n\r\n", Verb::kDelete, "cross_12", "7", ""},
      // python's urllib, for worker addresses
      {"PUT /worker_addresses/n1:0 HTTP/1.1\r\nAccept-Encoding: identity\r\ncontent-length: 2\r\nHost: n1:1\r\n"
       "User-Agent: Python-urllib/3.11\r\nConnection: close\r\n\r\nab",
       Verb::kPut, "worker_addresses", "n1:0", "ab"},
      {"GET /a%2Fb/c%20?d=e HTTP/1.1\r\n\r\n", Verb::kGet, "a%2Fb", "c%20?d=e", ""},  // nothing is decoded
      {"GET // HTTP/1.0\r\n\r\n", Verb::kGet, "", "", ""},
      {"GET /s/\xc3\xa9 HTTP/1.1\r\n\r\n", Verb::kGet, "s", "\xc3\xa9", ""},
  };
  for (const Row& row : table) {
    HorovodRequestReader reader(kLimits);
    std::string_view bytes = row.bytes;
    ASSERT_EQ(reader.feed(&bytes), State::kComplete) << row.bytes;
    EXPECT_TRUE(bytes.empty());
    const HorovodRequest request = reader.take();
    EXPECT_EQ(request.verb, row.verb);
    EXPECT_EQ(request.scope, row.scope);
    EXPECT_EQ(request.key, row.key);
    EXPECT_EQ(request.body, row.body);
  }
}

TEST(HorovodRequest, RefusesTheRestByStatus) {
  const std::string long_head = "GET /s/k HTTP/1.1\r\nX: " + std::string(300, 'x') + "\r\n\r\n";
  const std::pair<std::string, int> table[] = {
      {"GET /global HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET /a/b/c HTTP/1.1\r\n\r\n", 400},
      {"GET a/b/c HTTP/1.1\r\n\r\n", 400},
      {"GET http://n1/s/k HTTP/1.1\r\n\r\n", 400},
      {"POST /a HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 400},
      {"POST /s/k HTTP/1.1\r\nContent-Length: 0\r\n\r\n", 405},
      {"HEAD /s/k HTTP/1.1\r\n\r\n", 405},
      {"PUT /s/k HTTP/1.1\r\n\r\n", 411},
      {"PUT /s/k HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 411},
      {"PUT /s/k HTTP/1.1\r\nContent-Length: 11\r\n\r\n", 413},
      {"PUT /s/k HTTP/1.1\r\nContent-Length: 18446744073709551616\r\n\r\n", 400},
      {"PUT /s/k HTTP/1.1\r\nContent-Length: -1\r\n\r\n", 400},
      {"PUT /s/k HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400},
      {"GET /s/k HTTP/2.0\r\n\r\n", 400},
      {"GET /s/k\r\n\r\n", 400},
      {"\r\n\r\nGET /s/k HTTP/1.1\r\n\r\n", 400},
      {"\x16\x03\x01", 400},  // a TLS greeting
      {long_head, 431},
      {std::string(256, 'G'), 431},
  };
  for (const auto& [text, status] : table) {
    HorovodRequestReader reader(kLimits);
    std::string_view bytes = text;
    ASSERT_EQ(reader.feed(&bytes), State::kRefused) << text;
    EXPECT_EQ(reader.refusal(), status) << text;
    bytes = "GET /s/k HTTP/1.1\r\n\r\n";
    EXPECT_EQ(reader.feed(&bytes), State::kRefused) << "for good";
    EXPECT_TRUE(bytes.empty());
  }
}

TEST(HorovodRequest, TakesBytesAsTheyComeAndLeavesTheNextRequest) {
  const std::string two = "PUT /s/k HTTP/1.1\r\nContent-Length: 3\r\n\r\nabcGET /s/k HTTP/1.1\r\n\r\n";
  for (std::size_t size = 1; size < two.size(); ++size) {
    HorovodRequestReader reader(kLimits);
    std::string seen;
    for (std::size_t at = 0; at < two.size(); at += size) {
      std::string_view bytes = std::string_view(two).substr(at, size);
      while (!bytes.empty()) {
        if (reader.feed(&bytes) != State::kComplete) continue;
        const HorovodRequest request = reader.take();
        seen += (request.verb == Verb::kPut ? "PUT " : "GET ") + request.scope + request.key + request.body + " ";
      }
    }
    EXPECT_EQ(seen, "PUT skabc GET sk ") << size;
    EXPECT_EQ(reader.state(), State::kHead);
  }
}

TEST(HorovodRequest, SaysHowLongTheBodyWillBe) {
  HorovodRequestReader reader(kLimits);
  std::string_view bytes = "PUT /s/k HTTP/1.1\r\nContent-Length: 10\r\n\r\n1";
  EXPECT_EQ(reader.body_size(), 0u);
  EXPECT_EQ(reader.feed(&bytes), State::kBody);
  EXPECT_EQ(reader.body_size(), 10u);
}

TEST(HorovodReply, IsSpelledAsTheClientReadsIt) {
  EXPECT_EQ(horovod_reply_head(200, 5), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  EXPECT_EQ(horovod_reply_head(200, 5, 3), "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nMuster-Generation: 3\r\n\r\n");
  EXPECT_EQ(horovod_reply_head(404, 0), "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n");
  EXPECT_EQ(horovod_reply_head(400, 0), "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
}

}  // namespace
}  // namespace muster::rendezvous::horovod_request_test
