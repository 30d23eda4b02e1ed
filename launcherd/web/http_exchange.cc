// serve_http() and the session behind each HttpExchange.
// Read serve_http at the end first, then on_head and read_body, then the session's answer and begin_stream, then its
// writes.
#include "launcherd/web/http_exchange.h"

#include <sys/socket.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/status.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>

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

constexpr std::chrono::seconds kDrainTime{2};
constexpr std::size_t kMostDrained = std::size_t{16} << 20;  // bytes of a body that is not read

// Headers of every reply. The browser must not cache the reply, guess its type, or run anything from elsewhere.
constexpr std::string_view kAlways =
    "Cache-Control: no-store\r\n"
    "Connection: close\r\n"
    "Content-Security-Policy: default-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "X-Content-Type-Options: nosniff\r\n";

// Headers that belong to a status.
std::string_view more_headers(int status) {
  if (status == 401) return "WWW-Authenticate: Bearer realm=\"launcherd\"\r\n";
  return status == 503 ? "Retry-After: 1\r\n" : "";
}

std::string head_of(int status, std::string_view content_type) {
  const auto reason = http::obsolete_reason(static_cast<http::status>(status));
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\n{}{}", status,
                     std::string_view(reason.data(), reason.size()), content_type, kAlways, more_headers(status));
}

// `Stream` is beast::tcp_stream, or the same below TLS.
template <typename Stream>
class Session final : public HttpExchange, public std::enable_shared_from_this<Session<Stream>> {
 public:
  Session(Stream stream, BodyLimit body_limit, OnHttpRequest on_request, std::function<void()> on_closed,
          const HttpTimes& times)
      : times_(times),
        stream_(std::move(stream)),
        body_limit_(std::move(body_limit)),
        on_request_(std::move(on_request)),
        on_closed_(std::move(on_closed)) {
    set_limits(parser_);
  }

  // The handshake counts for the time of the header.
  void begin(HttpTls tls) {
    tls_ = std::move(tls);
    connection().expires_after(times_.head);
    stream_.async_handshake(asio::ssl::stream_base::server,
                            [self = this->shared_from_this()](const boost::system::error_code& failed) {
                              if (failed) return self->close();
                              self->read_head();
                            });
  }
  void begin() {
    connection().expires_after(times_.head);
    read_head();
  }

  void read_head() {
    if (is_closed_) return;
    http::async_read_header(stream_, buffer_, parser_,
                            [self = this->shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                              self->on_head(failed);
                            });
  }

  void add_header(std::string_view name, std::string_view value) override {
    headers_ += fmt::format("{}: {}\r\n", name, value);
  }

  void answer(int status, std::string_view content_type, std::string body) override {
    is_ending_ = true;
    write(fmt::format("{}{}Content-Length: {}\r\n\r\n", head_of(status, content_type), headers_, body.size()) + body);
  }

  void begin_events() override { begin_stream("text/event-stream"); }

  void begin_stream(std::string_view content_type) override {
    write(head_of(200, content_type) + headers_ + "\r\n");
    watch_peer();
  }

  void begin_download(std::string_view content_type, std::string_view file_name) override {
    add_header("Content-Disposition", fmt::format("attachment; filename=\"{}\"", file_name));
    begin_stream(content_type);
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
    connection().socket().shutdown(asio::ip::tcp::socket::shutdown_both, ignored);
    connection().close();
    queue_.clear();
    on_written_.clear();
    if (const auto gone = std::exchange(gone_, nullptr)) gone();
    if (const auto closed = std::exchange(on_closed_, nullptr)) closed();
  }

 private:
  beast::tcp_stream& connection() { return beast::get_lowest_layer(stream_); }

  void on_head(const boost::system::error_code& failed) {
    if (is_closed_) return;
    if (failed) return refuse(failed);
    const auto limit = body_limit_(request_of(parser_));
    if (!limit) return on_request_(request_of(parser_), this->shared_from_this());
    if (has_longer_body(parser_, *limit)) return refuse(http::error::body_limit);
    if (!expects_continue(parser_)) return read_body();
    write_continue();
  }

  // curl sends a long body only after this reply, or after a second.
  void write_continue() {
    constexpr std::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
    asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                      [self = this->shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                        if (failed) return self->close();
                        self->read_body();
                      });
  }

  void read_body() {
    if (is_closed_) return;
    connection().expires_after(times_.body);
    http::async_read(stream_, buffer_, parser_,
                     [self = this->shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                       self->on_read(failed);
                     });
  }

  void on_read(const boost::system::error_code& failed) {
    if (is_closed_) return;
    if (failed) return refuse(failed);
    on_request_(request_of(parser_), this->shared_from_this());
  }

  void refuse(const boost::system::error_code& failed) {
    if (const auto refusal = refusal_of(failed)) {
      return answer(refusal->http_status, "text/plain", std::string(refusal->text));
    }
    close();
  }

  // A close while bytes of the peer are unread would make the peer's kernel forget our reply. So this ends our side,
  // and drops what the peer still sends.
  void drain() {
    boost::system::error_code ignored;
    connection().socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
    connection().expires_after(kDrainTime);
    drain_more(kMostDrained);
  }

  void drain_more(std::size_t most) {
    stream_.async_read_some(asio::buffer(dropped_), [self = this->shared_from_this(), most](
                                                        const boost::system::error_code& failed, std::size_t count) {
      if (self->is_closed_) return;
      if (failed || count >= most) return self->close();
      self->drain_more(most - count);
    });
  }

  // Waits until the peer closes. The peer sends no further useful bytes.
  void watch_peer() {
    connection().socket().async_wait(
        asio::ip::tcp::socket::wait_read,
        [self = this->shared_from_this()](const boost::system::error_code&) { self->close(); });
  }

  void write(std::string bytes) {
    if (is_closed_) return;
    queue_.push_back(std::move(bytes));
    if (queue_.size() == 1) write_first();
  }

  void write_first() {
    connection().expires_after(times_.write);
    asio::async_write(stream_, asio::buffer(queue_.front()),
                      [self = this->shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                        self->on_written(failed);
                      });
  }

  void on_written(const boost::system::error_code& failed) {
    if (is_closed_) return;
    if (failed) return close();
    queue_.pop_front();
    if (!queue_.empty()) return write_first();
    if (is_ending_) return parser_.is_done() ? close() : drain();
    connection().expires_never();
    run_when_written();
  }

  void run_when_written() {
    for (const base::Loop::Task& task : std::exchange(on_written_, {})) task();
  }

  const HttpTimes times_;
  std::optional<HttpTls> tls_;  // outlives stream_, which borrows its context
  Stream stream_;
  const BodyLimit body_limit_;
  OnHttpRequest on_request_;
  std::function<void()> on_closed_;
  std::function<void()> gone_;
  beast::flat_buffer buffer_{kMaxHttpHead + 1024};
  HttpParser parser_;
  std::array<char, 4096> dropped_{};
  std::string headers_;            // more lines of the reply's header
  std::deque<std::string> queue_;  // the front is being written
  std::vector<base::Loop::Task> on_written_;
  bool is_ending_ = false;  // true if the connection closes once the queue is written
  bool is_closed_ = false;
};

template <typename Stream>
std::function<void()> closer_of(const std::shared_ptr<Session<Stream>>& session) {
  return [weak = std::weak_ptr(session)] {
    if (const auto alive = weak.lock()) alive->close();
  };
}

}  // namespace

std::function<void()> serve_http(base::Loop& loop, base::UniqueFd peer, const std::optional<HttpTls>& tls,
                                 BodyLimit body_limit, OnHttpRequest on_request, std::function<void()> on_closed,
                                 const HttpTimes& times) {
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
  beast::tcp_stream connection(std::move(socket));
  if (!tls) {
    const auto session = std::make_shared<Session<beast::tcp_stream>>(
        std::move(connection), std::move(body_limit), std::move(on_request), std::move(on_closed), times);
    session->begin();
    return closer_of(session);
  }
  using TlsConnection = beast::ssl_stream<beast::tcp_stream>;
  const auto session = std::make_shared<Session<TlsConnection>>(TlsConnection(std::move(connection), tls->context()),
                                                                std::move(body_limit), std::move(on_request),
                                                                std::move(on_closed), times);
  session->begin(*tls);
  return closer_of(session);
}

}  // namespace muster::launcherd::web
