// The last lines of a byte stream, such as the last words of a failed rank. A plain value.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace muster::agent::inline io {

class LineTail {
 public:
  static constexpr std::size_t kMaxBytes = 8 * 1024;
  static constexpr int kMaxLines = 20;

  void append(std::string_view bytes);
  // Returns the last kMaxLines lines within kMaxBytes. Each ends with '\n' if it had one. If '\r' overwrote a line
  // (progress bars), only the visible part is returned.
  std::string text() const;

 private:
  std::string recent_;  // at most 2 * kMaxBytes
};

}  // namespace muster::agent::io
