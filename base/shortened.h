// Cuts text that is too long.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::base {

// Returns `text`, which is UTF-8, in at most `most` bytes (3 or more). Longer text is cut between two characters and
// ends with "…".
std::string shortened(std::string_view text, std::size_t most);

}  // namespace muster::base
