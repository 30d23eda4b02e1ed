// Reads a request of /api/v1 before launcherd works for it: who may send it, and which message it stands for. Pure. The
// fuzzer uses it, too.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "base/status.h"
#include "launcherd/web/http_exchange.h"
#include "launcherd/web/rest_route.h"
#include "launcherd/web/web_request.h"

namespace muster::launcherd::inline web {

// True for targets below /api/v1.
bool is_rest_target(std::string_view target);

// A request that is refused, with the status of its reply.
struct RestRefusal {
  int http_status = 400;
  base::Status error;
  std::string allowed{};  // for 405: the methods of the path
};

// The header of a request that may be served.
struct RestHead {
  RestMatch match;  // without a route for the OpenAPI document
  WebTarget target;
};

// Checks the header: the path, its method, and the token for calls that change something. `write_token` is launcherd's
// own; empty means that it runs without --http-write. Does not read the body.
std::variant<RestHead, RestRefusal> read_rest_head(const HttpRequest& request, const std::string& write_token);

// Makes the message of the call from the path, the query and the body. The refusal names the field.
std::variant<std::unique_ptr<google::protobuf::Message>, RestRefusal> read_rest_message(const RestHead& head,
                                                                                        const HttpRequest& request);

}  // namespace muster::launcherd::web
