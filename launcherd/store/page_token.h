// Where the next page of a list begins, as a word that clients hand back. They may hand back anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace muster::launcherd::inline store {

// The page goes on below the job with this number (> 0).
std::string page_token(std::int64_t number);

// An empty word is the first page: the highest number. INVALID_ARGUMENT: not a word of page_token().
base::Result<std::int64_t> parse_page_token(std::string_view token);

}  // namespace muster::launcherd::store
