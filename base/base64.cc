#include "base/base64.h"

namespace muster::base {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr unsigned kNone = 64;

unsigned digit_of(char c, Base64 form) {
  if (form == Base64::kLenient && c == '-') return 62;
  if (form == Base64::kLenient && c == '_') return 63;
  const std::size_t at = kDigits.find(c);
  return at == std::string_view::npos ? kNone : static_cast<unsigned>(at);
}

// Removes the padding. Returns false if `text` cannot be base64 because of its length.
bool take_digits(std::string_view& text, Base64 form) {
  const bool is_whole = text.size() % 4 == 0;
  if (form == Base64::kStrict && !is_whole) return false;
  const std::size_t most = form == Base64::kStrict ? 2 : text.size();
  for (std::size_t i = 0; i < most && text.ends_with('='); ++i) text.remove_suffix(1);
  return text.size() % 4 != 1;
}

}  // namespace

std::optional<std::string> decode_base64(std::string_view text, Base64 form) {
  if (!take_digits(text, form)) return std::nullopt;
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const unsigned digit = digit_of(c, form);
    if (digit == kNone) return std::nullopt;
    bits = (bits << 6 | digit) & 0xffff;
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<char>(bits >> count & 0xff));
  }
  return bytes;
}

std::string encode_base64(std::string_view bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    unsigned bits = 0;
    for (std::size_t j = i; j < i + 3; ++j) {
      bits = bits << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    for (const int shift : {18, 12, 6, 0}) text.push_back(kDigits[bits >> shift & 63]);
  }
  for (std::size_t missing = (3 - bytes.size() % 3) % 3; missing > 0; --missing) text[text.size() - missing] = '=';
  return text;
}

}  // namespace muster::base
