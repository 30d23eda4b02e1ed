// One HTTP request of a browser and its answer: a body, or a stream of server-sent events (HTML standard, "Server-sent
// events": lines id:, event:, data:). One request a connection; the page is small and local.
//
// Loop thread only. The session owns itself until its connection is closed; whoever answers holds a shared_ptr. A
// request's head has 10 s and 8 KiB, a write that nobody takes 60 s.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/loop.h"
#include "base/unique_fd.h"

namespace muster::launcherd::inline web {

struct HttpRequest {
  std::string method;
  std::string target;         // as sent: "/api/jobs?all=1"
  std::string host;           // of the Host header
  std::string last_event_id;  // of a browser that comes back to a stream
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  // One of these two, once.
  virtual void answer(int status, std::string_view content_type, std::string body) = 0;
  virtual void begin_events() = 0;

  virtual void send_event(std::string_view id, std::string_view name, std::string_view data) = 0;
  // `task` runs on the loop when all that was sent is with the kernel; never when the peer has gone.
  virtual void when_taken(base::Loop::Task task) = 0;
  virtual void end() = 0;  // of the events
  // Called once when the peer goes before the end.
  virtual void on_gone(std::function<void()> gone) = 0;
};

using OnHttpRequest = std::function<void(const HttpRequest&, const std::shared_ptr<HttpExchange>&)>;

// Reads a request from a connected TCP socket. `on_closed` is called once, when the connection is gone. The function
// that it returns closes it.
std::function<void()> serve_http(base::Loop& loop, base::UniqueFd peer, OnHttpRequest on_request,
                                 std::function<void()> on_closed);

}  // namespace muster::launcherd::web
