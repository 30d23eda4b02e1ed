// Finds where a chunk of output may be cut: after its last '\n' or '\r'.
#pragma once

#include <cstddef>
#include <cstring>
#include <string_view>

namespace muster::agent::inline io {

// Returns the size of the longest prefix that ends a line; 0 if there is none.
inline std::size_t whole_lines(std::string_view text) {
  const void* newline = memrchr(text.data(), '\n', text.size());
  const std::size_t after_newline =
      newline == nullptr ? 0 : static_cast<std::size_t>(static_cast<const char*>(newline) - text.data()) + 1;
  const std::string_view rest = text.substr(after_newline);
  const void* bar = memrchr(rest.data(), '\r', rest.size());
  if (bar == nullptr) return after_newline;
  return after_newline + static_cast<std::size_t>(static_cast<const char*>(bar) - rest.data()) + 1;
}

}  // namespace muster::agent::io
