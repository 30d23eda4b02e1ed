// Writes text to the standard streams. Use it instead of fmt::print(). That function throws if a stream refuses the
// text (closed, a full disk, a pipe without a reader), and does not report text that is lost at exit.
#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace muster::base {

// Writes and flushes the text. Returns false, with errno set, if the stream refused a part of the text.
bool print_text(std::FILE* stream, std::string_view text);

// Writes a remark to stderr. If stderr fails, the remark is lost.
template <typename... Args>
void print_remark(fmt::format_string<Args...> format, Args&&... args) {
  (void)print_text(stderr, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster::base
