// Writes text to the standard streams. Use it instead of fmt::print(), which throws if a stream does not take the text
// (closed, a full disk, a pipe without a reader) and does not report what is lost at exit.
#pragma once

#include <cstdio>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace muster::base {

// Writes it out. False, with errno: not all of it was taken.
bool print_text(std::FILE* stream, std::string_view text);

// A remark for stderr; there is nobody to tell if it is not taken.
template <typename... Args>
void print_remark(fmt::format_string<Args...> format, Args&&... args) {
  (void)print_text(stderr, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace muster::base
