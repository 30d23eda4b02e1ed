#include "agent/pmix/log_text.h"

#include <cstdint>
#include <optional>

namespace muster::agent::pmix {
namespace {

constexpr std::size_t kMaxText = std::size_t{64} << 10;
constexpr std::size_t kIntBytes = 4;

bool is_text(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return c == '\n' || c == '\t' || (byte >= 0x20 && byte != 0x7f);
}

std::optional<std::uint32_t> read_int(std::string_view& rest) {
  if (rest.size() < kIntBytes) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : rest.substr(0, kIntBytes)) value = value << 8 | static_cast<unsigned char>(c);
  rest.remove_prefix(kIntBytes);
  return value;
}

bool read_count(std::string_view& rest) {
  const auto count = read_int(rest);
  return count && *count == 1;
}

std::optional<std::string_view> read_string(std::string_view& rest) {
  if (!read_count(rest)) return std::nullopt;
  const auto size = read_int(rest);
  if (!size || *size == 0 || *size > rest.size()) return std::nullopt;
  const std::string_view text = rest.substr(0, *size - 1);  // without its NUL
  rest.remove_prefix(*size);
  return text;
}

std::optional<std::string_view> help_text(std::string_view rest) {
  if (!read_string(rest) || !read_string(rest) || !read_count(rest) || rest.empty()) return std::nullopt;
  rest.remove_prefix(1);  // the flag: whether the text has an error header
  return read_string(rest);
}

std::string_view longest_run(std::string_view bytes) {
  std::string_view longest;
  std::size_t begin = 0;
  for (std::size_t i = 0; i <= bytes.size(); ++i) {
    if (i < bytes.size() && is_text(bytes[i])) continue;
    if (i - begin > longest.size()) longest = bytes.substr(begin, i - begin);
    begin = i + 1;
  }
  return longest;
}

}  // namespace

std::string printable_text(std::string_view text) {
  std::string shown;
  for (const char c : text.substr(0, kMaxText)) {
    if (is_text(c)) shown += c;
  }
  if (!shown.empty() && shown.back() != '\n') shown += '\n';
  return shown;
}

std::string log_text(std::string_view packed) {
  const auto help = help_text(packed);
  return printable_text(help ? *help : longest_run(packed));
}

}  // namespace muster::agent::pmix
