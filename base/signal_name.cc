#include "base/signal_name.h"

#include <string.h>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::base {

std::optional<int> signal_named(std::string_view text) {
  constexpr int kHighest = 64;
  if (const auto number = parse_decimal(text, kHighest); number && *number > 0) return static_cast<int>(*number);
  if (text.starts_with("SIG")) text.remove_prefix(3);
  for (int signo = 1; signo <= kHighest; ++signo) {
    const char* const name = ::sigabbrev_np(signo);
    if (name != nullptr && text == name) return signo;
  }
  return std::nullopt;
}

std::string signal_name(int signo) {
  const char* const name = ::sigabbrev_np(signo);
  return name == nullptr ? fmt::format("signal {}", signo) : fmt::format("SIG{}", name);
}

}  // namespace muster::base
