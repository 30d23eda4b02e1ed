// Errors as replies of HTTP: a status, and {"code", "message", "field"} as JSON. Pure.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "launcherd/web/http_exchange.h"

namespace muster::launcherd::inline web {

int http_status(base::Code code);

// Returns one line without its newline. `field` is there only if the message begins with the name of a field.
std::string error_json(const base::Status& status);

// Answers with the error.
void refuse(const std::shared_ptr<HttpExchange>& exchange, const base::Status& status);
// The same with another HTTP status.
void refuse_as(const std::shared_ptr<HttpExchange>& exchange, int http_status, const base::Status& status);

}  // namespace muster::launcherd::web
