// HttpPoster, over a stream that waits by a Waiter. Read HttpPoster::post at the end first, then WaitingStream.
#include "launcherd/trace/http_post.h"

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

#include <cerrno>
#include <climits>

#include "base/strings.h"
#include "base/unique_fd.h"
#include "launcherd/bootstrap/connect.h"

namespace muster::launcherd::inline trace {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

constexpr std::uint32_t kLongestHead = 16 * 1024;
constexpr std::size_t kLongestBody = std::size_t{64} << 10;
constexpr int kMostInterim = 8;  // answers such as 100 before the final one

std::string tls_error() {
  const unsigned long code = ::ERR_get_error();
  ::ERR_clear_error();
  if (code == 0) return "the connection broke";
  const char* const reason = ::ERR_reason_error_string(code);
  return reason == nullptr ? "TLS failed" : reason;
}

// A connected socket, with or without TLS, as Beast reads and writes it. A wait that ends early is kept in failure().
class WaitingStream {
 public:
  WaitingStream(base::UniqueFd fd, const Waiter& waiter) : fd_(std::move(fd)), waiter_(waiter) {}

  base::Status begin_tls(ssl_ctx_st* context, const std::string& host);
  const base::Status& failure() const { return failure_; }

  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers, boost::system::error_code& failed) {
    const asio::mutable_buffer first = first_of<asio::mutable_buffer>(buffers);
    if (first.size() == 0) return 0;
    return transfer(POLLIN, failed, [&]() -> long {
      if (ssl_ != nullptr) return ::SSL_read(ssl_.get(), first.data(), bounded(first.size()));
      return ::recv(fd_.get(), first.data(), first.size(), 0);
    });
  }
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers, boost::system::error_code& failed) {
    const asio::const_buffer first = first_of<asio::const_buffer>(buffers);
    if (first.size() == 0) return 0;
    return transfer(POLLOUT, failed, [&]() -> long {
      if (ssl_ != nullptr) return ::SSL_write(ssl_.get(), first.data(), bounded(first.size()));
      return ::send(fd_.get(), first.data(), first.size(), MSG_NOSIGNAL);
    });
  }
  // Beast asks for both forms.
  template <typename Buffers>
  std::size_t read_some(const Buffers& buffers) {
    boost::system::error_code ignored;
    return read_some(buffers, ignored);
  }
  template <typename Buffers>
  std::size_t write_some(const Buffers& buffers) {
    boost::system::error_code ignored;
    return write_some(buffers, ignored);
  }

 private:
  template <typename Buffer, typename Buffers>
  static Buffer first_of(const Buffers& buffers) {
    const auto end = asio::buffer_sequence_end(buffers);
    for (auto it = asio::buffer_sequence_begin(buffers); it != end; ++it) {
      if (Buffer(*it).size() > 0) return *it;
    }
    return {};
  }
  static int bounded(std::size_t size) { return static_cast<int>(std::min<std::size_t>(size, INT_MAX)); }

  // Repeats `step` until it has moved bytes.
  template <typename Step>
  std::size_t transfer(short events, boost::system::error_code& failed, Step step) {
    for (;;) {
      ::ERR_clear_error();  // SSL_get_error() would report an older error of this thread
      const long moved = step();
      if (moved > 0) {
        failed = {};
        return static_cast<std::size_t>(moved);
      }
      const short wanted = wanted_after(moved, events);
      if (wanted == 0) {
        failed = asio::error::eof;
        return 0;
      }
      if (!wait(wanted)) {
        failed = asio::error::operation_aborted;
        return 0;
      }
    }
  }

  // Returns the events for which the step waits. 0: the stream has ended.
  short wanted_after(long moved, short events) const {
    if (ssl_ == nullptr) {
      const bool waits = moved < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
      return waits ? events : short{0};
    }
    const int why = ::SSL_get_error(ssl_.get(), static_cast<int>(moved));
    if (why == SSL_ERROR_WANT_READ) return POLLIN;
    return why == SSL_ERROR_WANT_WRITE ? short{POLLOUT} : short{0};
  }

  bool wait(short events) {
    const pollfd fd{fd_.get(), events, 0};
    failure_ = waiter_.wait({&fd, 1});
    return failure_.ok();
  }

  base::UniqueFd fd_;
  const Waiter& waiter_;
  base::Status failure_{};
  std::unique_ptr<ssl_st, void (*)(ssl_st*)> ssl_{nullptr, ::SSL_free};
};

bool is_address(const std::string& host) {
  return base::IpAddress::parse(host).ok();
}

base::Status WaitingStream::begin_tls(ssl_ctx_st* context, const std::string& host) {
  ssl_.reset(::SSL_new(context));
  if (ssl_ == nullptr) return base::internal_error("TLS cannot begin: {}", tls_error());
  bool is_set = ::SSL_set_fd(ssl_.get(), fd_.get()) == 1;
  if (is_address(host)) {
    is_set = is_set && ::X509_VERIFY_PARAM_set1_ip_asc(::SSL_get0_param(ssl_.get()), host.c_str()) == 1;
  } else {
    is_set = is_set && ::SSL_set1_host(ssl_.get(), host.c_str()) == 1 &&
             ::SSL_set_tlsext_host_name(ssl_.get(), host.c_str()) == 1;
  }
  if (!is_set) return base::internal_error("TLS cannot begin: {}", tls_error());
  for (;;) {
    ::ERR_clear_error();
    const int done = ::SSL_connect(ssl_.get());
    if (done == 1) return base::ok_status();
    const short wanted = wanted_after(done, POLLIN);
    if (wanted != 0) {
      if (!wait(wanted)) return failure_;
      continue;
    }
    const long verified = ::SSL_get_verify_result(ssl_.get());
    if (verified != X509_V_OK) {
      ::ERR_clear_error();
      return base::unauthenticated("its certificate is not trusted: {}", ::X509_verify_cert_error_string(verified));
    }
    return base::unavailable("the TLS handshake failed: {}", tls_error());
  }
}

base::Result<std::shared_ptr<ssl_ctx_st>> make_context(const OtlpOptions& options) {
  std::shared_ptr<ssl_ctx_st> context(::SSL_CTX_new(::TLS_client_method()), ::SSL_CTX_free);
  if (context == nullptr) return base::internal_error("TLS cannot begin: {}", tls_error());
  ::SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  ::SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  ::SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  const bool is_trusting = options.certificate.empty() ? ::SSL_CTX_set_default_verify_paths(context.get()) == 1
                                                       : ::SSL_CTX_load_verify_locations(
                                                             context.get(), options.certificate.c_str(), nullptr) == 1;
  if (!is_trusting) {
    return base::invalid_argument("OTEL_EXPORTER_OTLP_CERTIFICATE={}: cannot be used: {}",
                                  base::printable(options.certificate), tls_error());
  }
  if (options.client_certificate.empty()) return context;
  const std::string& key = options.client_key.empty() ? options.client_certificate : options.client_key;
  if (::SSL_CTX_use_certificate_chain_file(context.get(), options.client_certificate.c_str()) != 1) {
    return base::invalid_argument("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE={}: cannot be used: {}",
                                  base::printable(options.client_certificate), tls_error());
  }
  if (::SSL_CTX_use_PrivateKey_file(context.get(), key.c_str(), SSL_FILETYPE_PEM) != 1) {
    return base::invalid_argument("OTEL_EXPORTER_OTLP_CLIENT_KEY={}: cannot be used: {}", base::printable(key),
                                  tls_error());
  }
  return context;
}

http::request<http::string_body> make_request(const CollectorUrl& url,
                                              const std::vector<std::pair<std::string, std::string>>& headers,
                                              const std::string& body) {
  http::request<http::string_body> request(http::verb::post, url.path, 11);
  const bool is_v6 = url.host.find(':') != std::string::npos;
  request.set(http::field::host, fmt::format("{}{}{}:{}", is_v6 ? "[" : "", url.host, is_v6 ? "]" : "", url.port));
  request.set(http::field::user_agent, "muster-otlp/" MUSTER_VERSION);
  for (const auto& [name, value] : headers) request.set(name, value);
  request.set(http::field::content_type, "application/x-protobuf");
  request.set(http::field::connection, "close");
  request.body() = body;
  request.prepare_payload();
  return request;
}

// Returns why Beast has stopped.
base::Status failure_of(const WaitingStream& stream, const boost::system::error_code& failed) {
  if (!stream.failure().ok()) return stream.failure();
  if (failed == http::error::end_of_stream || failed == http::error::partial_message || failed == asio::error::eof) {
    return base::unavailable("it closed the connection before it had answered");
  }
  return base::unavailable("its answer is no HTTP: {}", failed.message());
}

// 101 would end HTTP on this connection, so it is a final answer.
bool is_interim(unsigned status) {
  return status >= 100 && status < 200 && status != 101;
}

std::optional<std::chrono::seconds> retry_after(const http::response<http::string_body>& response) {
  const auto field = response[http::field::retry_after];
  const auto seconds = base::parse_decimal(base::trim({field.data(), field.size()}), 86'400);
  return seconds ? std::optional(std::chrono::seconds(*seconds)) : std::nullopt;
}

}  // namespace

HttpPoster::HttpPoster(const OtlpOptions& options, std::shared_ptr<ssl_ctx_st> context)
    : url_(options.url), headers_(options.headers), context_(std::move(context)) {}

base::Result<HttpPoster> HttpPoster::make(const OtlpOptions& options) {
  std::shared_ptr<ssl_ctx_st> context;
  if (options.url.is_tls) {
    MUSTER_ASSIGN_OR_RETURN(context, make_context(options));
  }
  return HttpPoster(options, std::move(context));
}

base::Result<HttpReply> HttpPoster::post(const std::string& body, const Waiter& waiter) const {
  base::UniqueFd socket;
  if (const Failure failure = connect_host(url_.host, url_.port, waiter, socket); !failure.ok()) {
    if (failure.kind == FailureKind::kCancelled) return base::cancelled("cancelled");
    const std::string detail = failure.detail.empty() ? std::string(failure_words(failure.kind)) : failure.detail;
    if (failure.kind == FailureKind::kTimeout) return base::deadline_exceeded("no answer in time: {}", detail);
    return base::unavailable("no connection: {}", detail);
  }
  WaitingStream stream(std::move(socket), waiter);
  if (context_ != nullptr) MUSTER_RETURN_IF_ERROR(stream.begin_tls(context_.get(), url_.host));
  const auto request = make_request(url_, headers_, body);
  boost::system::error_code failed;
  http::write(stream, request, failed);
  if (failed && !stream.failure().ok()) return failure_of(stream, failed);
  // A server that refuses a long body answers before it has read all of it.
  boost::beast::flat_buffer buffer;
  std::optional<http::response_parser<http::string_body>> reader;
  for (int interim = 0; interim <= kMostInterim; ++interim) {
    reader.emplace();
    reader->header_limit(kLongestHead);
    reader->body_limit(kLongestBody);
    http::read_header(stream, buffer, *reader, failed);
    if (failed || !is_interim(reader->get().result_int())) break;
  }
  auto& parser = *reader;
  // In C++20 Boost 1.74 does not compare a body's length with its limit, only that of pieces.
  if (!failed && parser.content_length().value_or(0) > kLongestBody) failed = http::error::body_limit;
  if (!failed) http::read(stream, buffer, parser, failed);
  if (failed) return failure_of(stream, failed);
  const auto& response = parser.get();
  return HttpReply{
      .status = static_cast<int>(response.result_int()), .body = response.body(), .retry_after = retry_after(response)};
}

}  // namespace muster::launcherd::trace
