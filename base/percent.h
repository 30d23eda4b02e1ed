// Bytes written in hexadecimal digits, and percent-encoding (RFC 3986 §2.1). Pure. Thread: any.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster::base {

// Returns 0 to 15; nullopt if `c` is no hexadecimal digit. Both cases are allowed.
std::optional<int> hex_digit(char c);

// Decodes escapes: %41 is A. nullopt if a '%' begins no escape.
std::optional<std::string> decode_percent(std::string_view text);

}  // namespace muster::base
