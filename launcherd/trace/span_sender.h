// Sends one request with spans to a collector, by HTTP or gRPC, and says what became of it.
// Thread: that of the exporter. Blocks at most as long as the Waiter allows.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "launcherd/bootstrap/waiter.h"
#include "launcherd/trace/otlp_options.h"

namespace muster::launcherd::inline trace {

struct SendReply {
  enum class Kind { kAccepted, kBusy, kRefused };  // after kBusy another try may help
  Kind kind = Kind::kAccepted;
  std::string body{};  // an ExportTraceServiceResponse, if it was accepted
  std::string why{};   // if it was not accepted: "it answered 401; check OTEL_EXPORTER_OTLP_HEADERS"
  std::optional<std::chrono::seconds> retry_after{};
};

class SpanSender {
 public:
  virtual ~SpanSender() = default;
  // `body` is an ExportTraceServiceRequest. Errors: UNAVAILABLE (no connection, or it broke), DEADLINE_EXCEEDED,
  // CANCELLED, UNAUTHENTICATED (the server's certificate is not trusted). The message names neither URL nor headers.
  virtual base::Result<SendReply> send(const std::string& body, const Waiter& waiter) const = 0;
};

// INVALID_ARGUMENT: certificates or headers cannot be used; the message names the variable.
base::Result<std::unique_ptr<SpanSender>> make_span_sender(const OtlpOptions& options);

}  // namespace muster::launcherd::trace
