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
  static constexpr std::size_t kMaxLine = 200;  // bytes of last_line()

  // Keeps at most `max_bytes` bytes.
  explicit LineTail(std::size_t max_bytes = kMaxBytes) : max_bytes_(max_bytes) {}

  void append(std::string_view bytes);
  // Returns the last kMaxLines lines within max_bytes. Each ends with '\n' if it had one. If '\r' overwrote a line
  // (progress bars), only the visible part is returned.
  std::string text() const;
  // Returns the beginning of the last of these lines that is not blank, as UTF-8. The line need not have ended. Empty
  // if there is none.
  std::string last_line() const;

 private:
  std::size_t max_bytes_;
  std::string recent_;  // at most 2 * max_bytes_
};

}  // namespace muster::agent::io
