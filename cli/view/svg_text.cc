#include "cli/view/svg_text.h"

namespace muster::cli::inline view {
namespace {

constexpr double kCharacter = 7;  // width of a letter of 12 px, about

}  // namespace

// XML allows neither U+FFFE nor U+FFFF.
std::string escape_markup(std::string_view text) {
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = text.substr(i);
    if (rest.starts_with("\xef\xbf\xbe") || rest.starts_with("\xef\xbf\xbf")) {
      result += '?';
      i += 2;
    } else if (text[i] == '&') {
      result += "&amp;";
    } else if (text[i] == '<') {
      result += "&lt;";
    } else if (text[i] == '>') {
      result += "&gt;";
    } else if (text[i] == '"') {
      result += "&quot;";
    } else {
      result += text[i];
    }
  }
  return result;
}

std::string fitting_text(const std::string& text, double width) {
  const auto room = width <= 0 ? std::size_t{0} : static_cast<std::size_t>(width / kCharacter);
  if (text.size() <= room) return text;
  if (room < 4) return "";
  std::size_t end = room - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "…";
}

}  // namespace muster::cli::view
