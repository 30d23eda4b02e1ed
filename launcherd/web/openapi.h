// The OpenAPI 3.1 document of /api/v1, made from the table of routes and the comments of launcher.proto. Pure.
#pragma once

#include <string>

namespace muster::launcherd::inline web {

// Returns the document as one line of JSON, with its newline.
std::string openapi_document();

}  // namespace muster::launcherd::web
