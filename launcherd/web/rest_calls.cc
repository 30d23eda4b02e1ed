// RestCalls, and how replies become JSON, events and lines.
// Read RestCalls::serve first, then serve_reply, then serve_stream and StreamWriter.
#include "launcherd/web/rest_calls.h"

#include "launcherd/web/http_error.h"
#include "launcherd/web/http_head.h"
#include "launcherd/web/openapi.h"
#include "proto/message_json.h"
#include "proto/plain_json.h"

namespace muster::launcherd::inline web {
namespace {

using google::protobuf::Message;

constexpr std::string_view kJsonType = "application/json";
constexpr std::string_view kLinesType = "application/x-ndjson";

std::string line_of(const Message& reply) {
  if (const auto* const chunk = dynamic_cast<const v1::LogChunk*>(&reply)) return proto::log_line(*chunk);
  return proto::message_line(reply);
}

// Writes one stream as events or as lines. Both end with a sign of their own, because a connection may also be cut.
class StreamWriter {
 public:
  StreamWriter(const RestStream& stream, bool wants_lines, std::shared_ptr<HttpExchange> exchange)
      : stream_(stream), wants_lines_(wants_lines), exchange_(std::move(exchange)) {}

  void begin() {
    if (std::exchange(has_begun_, true)) return;
    wants_lines_ ? exchange_->begin_stream(kLinesType) : exchange_->begin_events();
  }
  void send(const Message& reply) {
    begin();
    std::string line = line_of(reply);
    if (wants_lines_) return exchange_->send_bytes(std::move(line));
    line.pop_back();
    const std::string id = stream_.id_of == nullptr ? "" : std::to_string(stream_.id_of(reply));
    exchange_->send_event(id, stream_.event, line);
  }
  void end(const base::Status& status) {
    if (!status.ok() && !has_begun_) return refuse(exchange_, status);
    begin();
    const std::string error = status.ok() ? "{}" : error_json(status);
    wants_lines_ ? exchange_->send_bytes("{\"end\":" + error + "}\n") : exchange_->send_event("", "end", error);
    exchange_->end();
  }

 private:
  const RestStream& stream_;
  const bool wants_lines_;
  const std::shared_ptr<HttpExchange> exchange_;
  bool has_begun_ = false;
};

RestReplies replies_of(const std::shared_ptr<StreamWriter>& writer, const std::shared_ptr<HttpExchange>& exchange) {
  return {.send = [writer](const Message& reply) { writer->send(reply); },
          .done = [writer](const base::Status& status) { writer->end(status); },
          .when_written = [exchange](base::Loop::Task task) { exchange->when_written(std::move(task)); }};
}

// It takes some 20 ms to make, so it is kept.
const std::string& document() {
  static const std::string kDocument = openapi_document();
  return kDocument;
}

void answer(const RestRefusal& refusal, const std::shared_ptr<HttpExchange>& exchange) {
  if (!refusal.allowed.empty()) exchange->add_header("Allow", refusal.allowed);
  refuse_as(exchange, refusal.http_status, refusal.error);
}

}  // namespace

std::optional<std::size_t> RestCalls::body_limit(const HttpRequest& head) const {
  const auto read = read_rest_head(head, write_token_);
  const auto* const found = std::get_if<RestHead>(&read);
  if (found == nullptr) return std::nullopt;
  return found->match.route != nullptr && found->match.route->is_write() ? kMaxHttpBody : 0;
}

void RestCalls::serve(const HttpRequest& request, const Exchange& exchange) {
  const auto read = read_rest_head(request, write_token_);
  if (const auto* const refusal = std::get_if<RestRefusal>(&read)) {
    return answer(*refusal, exchange);
  }
  const auto& head = std::get<RestHead>(read);
  if (head.match.route == nullptr) return exchange->answer(200, kJsonType, document());
  auto message = read_rest_message(head, request);
  if (const auto* const refusal = std::get_if<RestRefusal>(&message)) {
    return answer(*refusal, exchange);
  }
  auto& whole = std::get<std::unique_ptr<Message>>(message);
  if (head.match.route->stream == nullptr) return serve_reply(*head.match.route, *whole, exchange);
  const bool wants_lines = request.accept.find(kLinesType) != std::string::npos;
  serve_stream(*head.match.route, std::move(whole), wants_lines, head.match.path_value, exchange);
}

void RestCalls::serve_reply(const RestRoute& route, const Message& message, const Exchange& exchange) {
  route.begin(*handler_, message,
              {.send = [exchange](const Message& reply) { exchange->answer(200, kJsonType, line_of(reply)); },
               .done =
                   [exchange](const base::Status& status) {
                     if (!status.ok()) refuse(exchange, status);
                   },
               .when_written = {}});
}

// A stream that begins at once needs its status at once, so this looks the job up first.
void RestCalls::serve_stream(const RestRoute& route, std::shared_ptr<const Message> message, bool wants_lines,
                             const std::string& job, const Exchange& exchange) {
  const auto writer = std::make_shared<StreamWriter>(*route.stream, wants_lines, exchange);
  const auto begin = [handler = handler_, &route, message = std::move(message), writer, exchange] {
    exchange->on_gone(route.begin(*handler, *message, replies_of(writer, exchange)));
  };
  if (!route.stream->begins_at_once) return begin();
  v1::GetJobRequest wanted;
  wanted.set_job(job);
  wanted.set_max_ranks(-1);
  handler_->get_job(wanted, [writer, begin](const base::Result<v1::Job>& found) {
    if (!found.ok()) return writer->end(found.status());
    writer->begin();
    begin();
  });
}

}  // namespace muster::launcherd::web
