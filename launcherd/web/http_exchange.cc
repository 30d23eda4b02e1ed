// serve_http() and the session behind each HttpExchange.
// Read serve_http at the end first, then the session's answer and begin_events, then its writes.
#include "launcherd/web/http_exchange.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>

#include <array>
#include <chrono>
#include <deque>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "launcherd/web/http_head.h"

namespace muster::launcherd::inline web {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::chrono::seconds kHeadLimit{10};
constexpr std::chrono::seconds kWriteLimit{60};

// Headers of every reply. The browser must not cache the reply, guess its type, or run anything from elsewhere.
constexpr std::string_view kAlways =
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
    "Content-Security-Policy: default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

std::string head_of(int status, std::string_view content_type) {
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}", status,
                     std::string_view(http::obsolete_reason(static_cast<http::status>(status)).to_string()),
                     content_type, kAlways);
}

class Session final : public HttpExchange, public std::enable_shared_from_this<Session> {
 public:
  Session(beast::tcp_stream stream, OnHttpRequest on_request, std::function<void()> on_closed)
      : stream_(std::move(stream)), on_request_(std::move(on_request)), on_closed_(std::move(on_closed)) {
    set_limits(parser_);
  }

  void read_request() {
    stream_.expires_after(kHeadLimit);
    http::async_read(
        stream_, buffer_, parser_,
        [self = shared_from_this()](const boost::system::error_code& failed, std::size_t) { self->on_read(failed); });
  }

  void answer(int status, std::string_view content_type, std::string body) override {
    is_ending_ = true;
    write(fmt::format("{}Content-Length: {}\r\n\r\n", head_of(status, content_type), body.size()) + body);
  }

  void begin_events() override {
    write(head_of(200, "text/event-stream") + "\r\n");
    watch_peer();
  }

  void begin_download(std::string_view content_type, std::string_view file_name) override {
    write(fmt::format("{}Content-Disposition: attachment; filename=\"{}\"\r\n\r\n", head_of(200, content_type),
                      file_name));
    watch_peer();
  }

  void send_bytes(std::string bytes) override { write(std::move(bytes)); }

  void send_event(std::string_view id, std::string_view name, std::string_view data) override {
    write(fmt::format("id: {}\nevent: {}\ndata: {}\n\n", id, name, data));
  }

  void when_written(base::Loop::Task task) override {
    on_written_.push_back(std::move(task));
    if (queue_.empty()) run_when_written();
  }

  void end() override {
    is_ending_ = true;
    gone_ = nullptr;
    if (queue_.empty()) close();
  }

  void on_gone(std::function<void()> gone) override {
    if (is_ending_ || !gone) return;
    if (is_closed_) return gone();
    gone_ = std::move(gone);
  }

  void close() {
    if (std::exchange(is_closed_, true)) return;
    boost::system::error_code ignored;
    stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    stream_.close();
    queue_.clear();
    on_written_.clear();
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
    if (const auto closed = std::exchange(on_closed_, nullptr)) closed();
  }

 private:
  void on_read(const boost::system::error_code& failed) {
    if (is_closed_) return;
    if (!failed) return on_request_(request_of(parser_), shared_from_this());
    if (const auto refusal = refusal_of(failed)) {
      return answer(refusal->http_status, "text/plain", std::string(refusal->text));
    }
    close();
  }

  // Waits until the peer closes. The peer sends no further useful bytes.
  void watch_peer() {
    stream_.socket().async_wait(asio::ip::tcp::socket::wait_read,
                                [self = shared_from_this()](const boost::system::error_code&) { self->close(); });
  }

  void write(std::string bytes) {
    if (is_closed_) return;
    queue_.push_back(std::move(bytes));
    if (queue_.size() == 1) write_first();
  }

  void write_first() {
    stream_.expires_after(kWriteLimit);
    asio::async_write(stream_, asio::buffer(queue_.front()),
                      [self = shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                        self->on_written(failed);
                      });
  }

  void on_written(const boost::system::error_code& failed) {
    if (is_closed_) return;
    if (failed) return close();
    queue_.pop_front();
    if (!queue_.empty()) return write_first();
    if (is_ending_) return close();
    stream_.expires_never();
    run_when_written();
  }

  void run_when_written() {
    for (const base::Loop::Task& task : std::exchange(on_written_, {})) task();
  }

  beast::tcp_stream stream_;
  OnHttpRequest on_request_;
  std::function<void()> on_closed_;
  std::function<void()> gone_;
  beast::flat_buffer buffer_{kMaxHttpHead + 1024};
  HttpParser parser_;
  std::deque<std::string> queue_;  // the front is being written
  std::vector<base::Loop::Task> on_written_;
  bool is_ending_ = false;  // true if the connection closes once the queue is written
  bool is_closed_ = false;
};

}  // namespace

std::function<void()> serve_http(base::Loop& loop, base::UniqueFd peer, OnHttpRequest on_request,
                                 std::function<void()> on_closed) {
  int family = AF_INET;
  socklen_t size = sizeof family;
  ::getsockopt(peer.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  asio::ip::tcp::socket socket(loop.context());
  boost::system::error_code failed;
  socket.assign(family == AF_INET6 ? asio::ip::tcp::v6() : asio::ip::tcp::v4(), peer.get(), failed);
  if (failed) {
    loop.post(std::move(on_closed));
    return [] {};
  }
  (void)peer.release();
  const auto session =
      std::make_shared<Session>(beast::tcp_stream(std::move(socket)), std::move(on_request), std::move(on_closed));
  session->read_request();
  return [weak = std::weak_ptr(session)] {
    if (const auto alive = weak.lock()) alive->close();
  };
}

}  // namespace muster::launcherd::web
