// Sends one HTTP request with a body, and waits for the reply. https proves the server by its certificate and name.
// Each request has a connection of its own. Blocks at most as long as the Waiter allows; for a thread of its own, which
// ignores SIGPIPE.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/trace/otlp_options.h"

struct ssl_ctx_st;

namespace muster::launcherd::inline trace {

struct HttpReply {
  int status = 0;
  std::string body{};  // at most 64 KiB
  std::optional<std::chrono::seconds> retry_after{};
};

class HttpPoster {
 public:
  // Reads the certificates of `options`. INVALID_ARGUMENT: one of them cannot be used; the message names its variable.
  static base::Result<HttpPoster> make(const OtlpOptions& options);

  // Errors: UNAVAILABLE (no connection, or it broke), DEADLINE_EXCEEDED, CANCELLED, UNAUTHENTICATED (the server's
  // certificate is not trusted). The message names neither URL nor headers.
  base::Result<HttpReply> post(const std::string& body, const Waiter& waiter) const;

 private:
  HttpPoster(const OtlpOptions& options, std::shared_ptr<ssl_ctx_st> context);

  CollectorUrl url_;
  std::vector<std::pair<std::string, std::string>> headers_;
  std::shared_ptr<ssl_ctx_st> context_;  // nullptr for http
};

}  // namespace muster::launcherd::trace
