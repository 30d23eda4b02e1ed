// Answers /metrics with what launcherd knows now.
// Thread: the loop thread only.
#pragma once

#include <memory>

#include "launcherd/service/api_handler.h"
#include "launcherd/web/http_exchange.h"

namespace muster::launcherd::inline web {

// `handler` is borrowed until the answer.
void serve_metrics(ApiHandler* handler, const std::shared_ptr<HttpExchange>& exchange);

}  // namespace muster::launcherd::web
