// Requests of anybody to /api/v1: the message that comes of one has the job or host of its path, holds only UTF-8 in
// its texts, and can be sent on. Whatever is refused has an error with a status of HTTP. The input is a line with
// method and target, a line with the Last-Event-ID, and the body.
#include <google/protobuf/message.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcherd/web/http_error.h"
#include "launcherd/web/rest_request.h"
#include "proto/text_fields.h"

namespace {

using namespace muster::launcherd;

std::string line_of(std::string_view& rest) {
  const std::size_t end = std::min(rest.find('\n'), rest.size());
  std::string line(rest.substr(0, end));
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return line;
}

void check_refusal(const RestRefusal& refusal) {
  if (refusal.http_status < 400 || refusal.http_status > 499) std::abort();
  if (refusal.error.ok() || error_json(refusal.error).empty()) std::abort();
}

void check_message(const RestHead& head, const google::protobuf::Message& message) {
  if (!muster::proto::check_text(message).ok()) std::abort();
  if (!head.match.route->path_field().empty()) {
    const auto* const field = message.GetDescriptor()->FindFieldByName(std::string(head.match.route->path_field()));
    if (message.GetReflection()->GetString(message, field) != head.match.path_value) std::abort();
  }
  std::string bytes;
  if (!message.SerializeToString(&bytes)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  const std::string first = line_of(rest);
  HttpRequest request;
  request.method = first.substr(0, first.find(' '));
  request.target = std::string(kRestPrefix) + first.substr(std::min(request.method.size() + 1, first.size()));
  request.last_event_id = line_of(rest);
  request.host = "localhost";
  request.token = "secret";
  request.body = rest;
  const auto head = read_rest_head(request, "secret");
  if (const auto* const refusal = std::get_if<RestRefusal>(&head)) {
    check_refusal(*refusal);
    return 0;
  }
  const auto& found = std::get<RestHead>(head);
  if (found.match.route == nullptr) return 0;
  const auto message = read_rest_message(found, request);
  if (const auto* const refusal = std::get_if<RestRefusal>(&message)) {
    check_refusal(*refusal);
    return 0;
  }
  check_message(found, *std::get<std::unique_ptr<google::protobuf::Message>>(message));
  return 0;
}
