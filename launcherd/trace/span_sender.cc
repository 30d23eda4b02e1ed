#include "launcherd/trace/span_sender.h"

#include <utility>

#include <fmt/format.h>

#include "launcherd/trace/grpc_sender.h"
#include "launcherd/trace/http_post.h"

namespace muster::launcherd::inline trace {
namespace {

constexpr int kOk = 200;
constexpr int kFirstOther = 300;

// The protocol names these as worth another try.
bool is_worth_retry(int status) {
  return status == 429 || status == 502 || status == 503 || status == 504;
}

std::string advice_for(int status) {
  if (status == 401 || status == 403) return "; check OTEL_EXPORTER_OTLP_HEADERS";
  if (status == 404 || status == 405) return "; check OTEL_EXPORTER_OTLP_ENDPOINT";
  if (status == 415) return "; it does not accept http/protobuf";
  return "";
}

class HttpSender final : public SpanSender {
 public:
  explicit HttpSender(HttpPoster poster) : poster_(std::move(poster)) {}

  base::Result<SendReply> send(const std::string& body, const Waiter& waiter) const override {
    MUSTER_ASSIGN_OR_RETURN(HttpReply reply, poster_.post(body, waiter));
    if (reply.status >= kOk && reply.status < kFirstOther) return SendReply{.body = std::move(reply.body)};
    return SendReply{.kind = is_worth_retry(reply.status) ? SendReply::Kind::kBusy : SendReply::Kind::kRefused,
                     .why = fmt::format("it answered {}{}", reply.status, advice_for(reply.status)),
                     .retry_after = reply.retry_after};
  }

 private:
  const HttpPoster poster_;
};

}  // namespace

base::Result<std::unique_ptr<SpanSender>> make_span_sender(const OtlpOptions& options) {
  if (options.is_grpc) return make_grpc_sender(options);
  MUSTER_ASSIGN_OR_RETURN(HttpPoster poster, HttpPoster::make(options));
  return std::unique_ptr<SpanSender>(std::make_unique<HttpSender>(std::move(poster)));
}

}  // namespace muster::launcherd::trace
