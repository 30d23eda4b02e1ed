#include "agent/evidence/http_reply.h"

#include <sys/socket.h>

#include <gtest/gtest.h>

namespace muster::agent::http_reply_test {
namespace {

// Reads what a server sends before it closes.
base::Result<HttpReply> reply(std::string_view bytes) {
  int ends[2];
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  base::UniqueFd server(ends[1]);
  EXPECT_EQ(::send(server.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  server.reset();
  LimitedStream stream =
      LimitedStream::adopt(base::UniqueFd(ends[0]),
                           {.deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20), .bytes = 1 << 16})
          .value();
  return read_http_reply(stream);
}

TEST(HttpReply, ReadsABodyOfAnyForm) {
  for (const char* bytes :
       {"HTTP/1.1 200 OK\r\ncontent-length: 5\r\nX: y\r\n\r\nhello, more", "HTTP/1.0 200\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"}) {
    const auto read = reply(bytes);
    ASSERT_TRUE(read.ok()) << bytes << read.status();
    EXPECT_EQ(read->status, 200);
    EXPECT_EQ(read->body, "hello") << bytes;
  }
  EXPECT_EQ(reply("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")->status, 404);
}

TEST(HttpReply, RefusesWhatIsNoReply) {
  for (const char* bytes :
       {"", "HTTP/1.1 200 OK\r\n", "HTTP/2 200\r\n\r\n", "HTTP/1.1 OK\r\n\r\n", "SERVER PROTOCOL 2\n\n",
        "HTTP/1.1 200 OK\r\nno header\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nx",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhell\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n"}) {
    EXPECT_FALSE(reply(bytes).ok()) << bytes;
  }
}

}  // namespace
}  // namespace muster::agent::http_reply_test
