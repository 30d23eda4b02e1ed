// Tests the limits of time of serve_http() over real sockets. web_server_test.cc and tests/daemon/test_http.py test
// what it serves.
#include "launcherd/web/http_exchange.h"

#include <thread>

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/unit/launcherd/web/served_port.h"

namespace muster::launcherd::http_exchange_test {
namespace {

using std::chrono::milliseconds;

constexpr HttpTimes kLong{.head = milliseconds(60'000), .body = milliseconds(60'000), .write = milliseconds(60'000)};

class HttpExchangeTest : public ::testing::Test {
 protected:
  ~HttpExchangeTest() override { end(); }

  // Returns the client's end of a connection that is served with these limits.
  base::UniqueFd connect(const HttpTimes& times) {
    auto listening = base::listen_on(base::IpAddress::parse("127.0.0.1").value(), 0, 1);
    EXPECT_TRUE(listening.ok()) << listening.status();
    base::UniqueFd client =
        served_port::connected("http://127.0.0.1:" + std::to_string(base::local_port(listening->get()).value()));
    base::UniqueFd peer(::accept4(listening->get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    EXPECT_TRUE(peer.valid());
    close_ = serve_http(
        loop_, std::move(peer), std::nullopt, [](const HttpRequest&) { return std::size_t{1000}; },
        [this](const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange) {
          bodies_.push_back(request.body);
          exchange->answer(200, "text/plain", "served");
        },
        [this] { loop_.stop(); }, times);
    thread_ = std::thread([this] { loop_.run(); });
    return client;
  }
  void end() {
    if (thread_.joinable()) thread_.join();
  }
  static void send(const base::UniqueFd& fd, std::string_view text) {
    EXPECT_TRUE(base::write_all_blocking(fd.get(), text.data(), text.size()).ok());
  }

  base::Loop loop_;
  std::function<void()> close_;
  std::vector<std::string> bodies_;  // read it after end()
  std::thread thread_;
};

TEST_F(HttpExchangeTest, ServesABodyThatComesInPieces) {
  const base::UniqueFd client = connect(kLong);
  send(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
  send(client, "cdef");
  EXPECT_TRUE(served_port::rest_of(client).ends_with("served"));
  end();
  EXPECT_EQ(bodies_, std::vector<std::string>{"abcdef"});
}

TEST_F(HttpExchangeTest, ClosesIfTheBodyTakesTooLong) {
  HttpTimes times = kLong;
  times.body = milliseconds(50);
  const base::UniqueFd client = connect(times);
  send(client, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 6\r\n\r\nab");
  EXPECT_EQ(served_port::rest_of(client), "");
  end();
  EXPECT_TRUE(bodies_.empty());
}

TEST_F(HttpExchangeTest, ClosesIfTheHeaderTakesTooLong) {
  HttpTimes times = kLong;
  times.head = milliseconds(50);
  const base::UniqueFd client = connect(times);
  send(client, "POST / HTTP/1.1\r\nHo");
  EXPECT_EQ(served_port::rest_of(client), "");
  end();
  EXPECT_TRUE(bodies_.empty());
}

TEST(HttpTimes, AreThoseOfTheGuide) {
  EXPECT_EQ(HttpTimes().head, std::chrono::seconds(10));
  EXPECT_EQ(HttpTimes().body, std::chrono::seconds(30));
  EXPECT_EQ(HttpTimes().write, std::chrono::seconds(60));
}

}  // namespace
}  // namespace muster::launcherd::http_exchange_test
