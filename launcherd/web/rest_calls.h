// RestCalls serves /api/v1: every call of launcher.proto over HTTP, with JSON (proto/plain_json.h). The table is in
// rest_route.h. One reply is JSON. Streams are server-sent events, or lines of JSON if the Accept header asks for
// application/x-ndjson. Calls that change something need POST and the token.
//
// Thread: the loop thread only. Owner: `handler` is borrowed.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "launcherd/service/api_handler.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/rest_request.h"

namespace muster::launcherd::inline web {

class RestCalls {
 public:
  RestCalls(ApiHandler* handler, std::string write_token) : handler_(handler), write_token_(std::move(write_token)) {}

  // A BodyLimit (http_exchange.h). nullopt if the header is refused: then the body is not read.
  std::optional<std::size_t> body_limit(const HttpRequest& head) const;
  void serve(const HttpRequest& request, const std::shared_ptr<HttpExchange>& exchange);

 private:
  using Exchange = std::shared_ptr<HttpExchange>;

  void serve_reply(const RestRoute& route, const google::protobuf::Message& message, const Exchange& exchange);
  void serve_stream(const RestRoute& route, std::shared_ptr<const google::protobuf::Message> message, bool wants_lines,
                    const std::string& job, const Exchange& exchange);

  ApiHandler* const handler_;
  const std::string write_token_;
};

}  // namespace muster::launcherd::web
