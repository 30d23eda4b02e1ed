// Small text functions, in the order of the header.
// Read the helpers edit_distance() and utf8_length() before nearest_word() and valid_utf8(), which use them.
#include "base/strings.h"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

namespace muster::base {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
  std::string result;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) result += separator;
    result += parts[i];
  }
  return result;
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n\v\f";
  const auto first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

bool starts_with_any(std::string_view text, std::span<const std::string_view> prefixes) {
  return std::ranges::any_of(prefixes, [&](std::string_view prefix) { return text.starts_with(prefix); });
}

std::optional<long> parse_decimal(std::string_view text, long max) {
  if (text.empty()) return std::nullopt;
  long value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return std::nullopt;
    const long digit = c - '0';
    if (value > (max - digit) / 10) return std::nullopt;
    value = value * 10 + digit;
  }
  return value <= max ? std::optional(value) : std::nullopt;
}

std::optional<std::vector<int>> parse_number_list(std::string_view text, int max) {
  std::vector<int> numbers;
  if (text.empty()) return numbers;
  for (const std::string_view range : split(text, ',')) {
    const auto dash = range.find('-');
    const auto first = parse_decimal(range.substr(0, dash), max);
    const auto last = dash == std::string_view::npos ? first : parse_decimal(range.substr(dash + 1), max);
    if (!first || !last || *first > *last) return std::nullopt;
    for (long number = *first; number <= *last; ++number) numbers.push_back(static_cast<int>(number));
  }
  std::ranges::sort(numbers);
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return numbers;
}

std::string shell_quote(std::string_view word) {
  const auto is_plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./:=,@%+").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, is_plain)) return std::string(word);
  std::string result = "'";
  for (const char c : word) {
    if (c == '\'') {
      result += "'\\''";
    } else {
      result += c;
    }
  }
  return result + "'";
}

namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row.back();
}

}  // namespace

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> words) {
  std::optional<std::string> best;
  std::size_t best_distance = (word.size() + 2) / 3 + 1;
  for (const std::string& candidate : words) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

namespace {

// Returns the length of the well-formed UTF-8 character at the start of `text`; 0 if there is none (RFC 3629).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto follows = [&](std::size_t i) { return (byte(i) & 0xc0) == 0x80; };
  const unsigned lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return follows(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const bool is_long = lead == 0xe0 && byte(1) < 0xa0;       // a shorter form exists
    const bool is_surrogate = lead == 0xed && byte(1) > 0x9f;  // half of a UTF-16 pair
    return follows(1) && follows(2) && !is_long && !is_surrogate ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const bool is_long = lead == 0xf0 && byte(1) < 0x90;
    const bool is_beyond = lead == 0xf4 && byte(1) > 0x8f;  // above U+10FFFF
    return follows(1) && follows(2) && follows(3) && !is_long && !is_beyond ? 4 : 0;
  }
  return 0;
}

}  // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string valid_utf8(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    result += length == 0 ? std::string_view("\xef\xbf\xbd") : text.substr(0, length);
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

namespace {

// Returns the bytes of the control character with which `text` begins; 0 if it begins with another one. Control
// characters are also U+0080 to U+009F, and those that change the direction of text: U+202A to U+202E, U+2066 to
// U+2069.
std::size_t size_of_control(std::string_view text) {
  const auto byte = [&](std::size_t at) { return at < text.size() ? static_cast<unsigned char>(text[at]) : 0u; };
  if (byte(0) < 0x20 || byte(0) == 0x7f) return 1;
  if (byte(0) == 0xc2) return byte(1) >= 0x80 && byte(1) <= 0x9f ? 2 : 0;
  if (byte(0) != 0xe2) return 0;
  if (byte(1) == 0x80) return byte(2) >= 0xaa && byte(2) <= 0xae ? 3 : 0;
  return byte(1) == 0x81 && byte(2) >= 0xa6 && byte(2) <= 0xa9 ? 3 : 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string result;
  while (!text.empty()) {
    const std::size_t size = size_of_control(text);
    if (size == 0) {
      result += text.front();
      text.remove_prefix(1);
      continue;
    }
    for (const char c : text.substr(0, size)) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    text.remove_prefix(size);
  }
  return result;
}

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return result;
}

}  // namespace muster::base
