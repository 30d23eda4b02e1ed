#include "launcherd/output/line_pattern.h"

namespace muster::launcherd::inline output {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// Returns true if all escape sequences of the line are colours: ESC [ parameters m.
bool has_only_colours(std::string_view line) {
  for (std::size_t at = line.find('\033'); at != std::string_view::npos; at = line.find('\033', at)) {
    if (++at == line.size() || line[at] != '[') return false;
    at = line.find_first_not_of("0123456789;:", at + 1);
    if (at == std::string_view::npos || line[at] != 'm') return false;
  }
  return true;
}

// Returns the index after the digits that begin at `at`.
std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

// Returns the index after the number whose first digit is at `at`.
std::size_t skip_number(std::string_view text, std::size_t at) {
  at = skip_digits(text, at);
  if (at + 1 < text.size() && text[at] == '.' && is_digit(text[at + 1])) at = skip_digits(text, at + 1);
  std::size_t exponent = at;
  if (exponent < text.size() && (text[exponent] == 'e' || text[exponent] == 'E')) {
    ++exponent;
    if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
    const std::size_t end = skip_digits(text, exponent);
    if (end > exponent && (end == text.size() || !is_word(text[end]))) return end;
  }
  return at;
}

}  // namespace

bool draws(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  const bool is_bar = line.find('\r') != std::string_view::npos || line.find('\b') != std::string_view::npos;
  return is_bar || !has_only_colours(line);
}

void append_without_numbers(std::string_view text, std::string* to) {
  for (std::size_t at = 0; at < text.size();) {
    const char c = text[at];
    const bool is_sign =
        (c == '-' || c == '+') && at + 1 < text.size() && is_digit(text[at + 1]) && (at == 0 || !is_word(text[at - 1]));
    if (is_digit(c) || is_sign) {
      to->push_back('#');
      at = skip_number(text, at + (is_sign ? 1 : 0));
    } else {
      to->push_back(c);
      ++at;
    }
  }
}

}  // namespace muster::launcherd::output
