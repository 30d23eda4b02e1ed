// A page token says where the next page of a list begins. Clients send it back, so it may contain arbitrary bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline store {

// Returns the token of the page that continues with jobs whose number is below `number` (> 0).
std::string page_token(std::int64_t number);

// An empty token means the first page, which has the highest numbers. INVALID_ARGUMENT: `token` does not come from
// page_token().
base::Result<std::int64_t> parse_page_token(std::string_view token);

// The same for sorted lists. The page begins after the first `count` jobs (> 0) of the list as it is then.
std::string offset_token(std::int64_t count);
// Returns 0 for an empty token. INVALID_ARGUMENT: `token` does not come from offset_token().
base::Result<std::int64_t> parse_offset_token(std::string_view token);

}  // namespace muster::launcherd::store
