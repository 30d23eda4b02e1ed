// The last lines of a byte stream: what a failed rank said last. A plain value.
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
  // The last kMaxLines lines within kMaxBytes, each with its '\n' as far as it had one. Of a line that was overwritten
  // by '\r' (progress bars) only what remained visible.
  std::string text() const;

 private:
  std::string recent_;  // at most 2 * kMaxBytes
};

}  // namespace muster::agent::io
