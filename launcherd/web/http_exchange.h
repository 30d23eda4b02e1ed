// HttpExchange is one HTTP request and its reply. The reply is a body or a stream: server-sent events (HTML standard,
// "Server-sent events": lines id:, event:, data:), lines, or a download. Each connection serves one request, because
// its clients are few and local.
//
// Thread: the loop thread only.
// Owner: the session owns itself until its connection is closed. The code that replies holds a shared_ptr.
// Limits: HttpTimes, and 8 KiB for the header.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "launcherd/web/http_tls.h"

namespace muster::launcherd::inline web {

struct HttpRequest {
  std::string method;
  std::string target;           // as the browser sent it: "/api/jobs?all=1"
  std::string host;             // from the Host header
  std::string last_event_id{};  // set if the browser continues an earlier stream
  std::string origin{};         // from the Origin header; browsers set it in each POST
  std::string token{};          // of "Authorization: Bearer TOKEN", else of the X-Muster-Token header
  std::string accept{};         // from the Accept header
  std::string content_type{};   // from the Content-Type header
  std::string body{};
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // Call it before the reply begins.
  virtual void add_header(std::string_view name, std::string_view value) = 0;
  // Call exactly one of answer() and the functions begin_...(), once.
  virtual void answer(int status, std::string_view content_type, std::string body) = 0;
  virtual void begin_events() = 0;
  // Begins a stream of bytes of this type, for send_bytes().
  virtual void begin_stream(std::string_view content_type) = 0;
  // Begins a file that the browser saves. `file_name` consists of letters, digits, '-', '_' and '.'.
  virtual void begin_download(std::string_view content_type, std::string_view file_name) = 0;

  virtual void send_event(std::string_view id, std::string_view name, std::string_view data) = 0;
  virtual void send_bytes(std::string bytes) = 0;  // of a stream or a download
  // Runs `task` on the loop once the kernel has everything sent so far. Never runs it if the peer has left.
  virtual void when_written(base::Loop::Task task) = 0;
  virtual void end() = 0;  // ends the stream of events, or the download
  // Calls `gone` once if the peer leaves before the end.
  virtual void on_gone(std::function<void()> gone) = 0;
};

// Returns how long a request's body may be, given its header. nullopt means that the request is answered by its header
// alone: its body is not read.
using BodyLimit = std::function<std::optional<std::size_t>(const HttpRequest& head)>;
using OnHttpRequest = std::function<void(const HttpRequest&, const std::shared_ptr<HttpExchange>&)>;

// How long a peer may take. A connection that takes longer is closed.
struct HttpTimes {
  std::chrono::milliseconds head{10'000};   // to send the header of its request, with the handshake of TLS
  std::chrono::milliseconds body{30'000};   // to send the body after that
  std::chrono::milliseconds write{60'000};  // to read each write
};

// Reads a request from a connected TCP socket, with TLS if `tls` is set. Calls `on_closed` once, when the connection is
// closed. The returned function closes the connection.
std::function<void()> serve_http(base::Loop& loop, base::UniqueFd peer, const std::optional<HttpTls>& tls,
                                 BodyLimit body_limit, OnHttpRequest on_request, std::function<void()> on_closed,
                                 const HttpTimes& times = {});

}  // namespace muster::launcherd::web
