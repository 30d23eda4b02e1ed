#include "cli/top/cell_text.h"

#include <locale.h>
#include <wchar.h>

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline top {
namespace {

// Makes C.UTF-8 the locale of this thread while it exists, because wcwidth() asks the thread's locale. Without
// C.UTF-8 the locale stays, and other characters than ASCII may count as unprintable.
class Utf8Widths {
 public:
  Utf8Widths() {
    static const locale_t kUtf8 = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
    if (kUtf8 != nullptr) before_ = ::uselocale(kUtf8);
  }
  ~Utf8Widths() {
    if (before_ != nullptr) ::uselocale(before_);
  }
  Utf8Widths(const Utf8Widths&) = delete;
  Utf8Widths& operator=(const Utf8Widths&) = delete;

 private:
  locale_t before_ = nullptr;
};

struct Glyph {
  std::string_view bytes{};
  int cells = -1;  // -1: must not reach a terminal as it is
};

// Returns the first character of `text`, which is not empty. A byte that begins no character stands alone.
Glyph first_glyph(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) return {text.substr(0, 1), lead < 0x20 || lead == 0x7f ? -1 : 1};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const std::string_view bytes = text.substr(0, size);
  if (bytes.size() < size || !base::is_utf8(bytes)) return {text.substr(0, 1), -1};
  if (base::printable(bytes) != bytes) return {bytes, -1};
  auto code = static_cast<unsigned>(lead & (0xffU >> (size + 1)));
  for (const char c : bytes.substr(1)) code = (code << 6) | (static_cast<unsigned char>(c) & 0x3fU);
  return {bytes, ::wcwidth(static_cast<wchar_t>(code))};
}

}  // namespace

std::string harmless(std::string_view text) {
  const Utf8Widths widths;
  std::string result;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    if (glyph.cells >= 0) {
      result += glyph.bytes;
    } else {
      for (const char c : glyph.bytes) result += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
    text.remove_prefix(glyph.bytes.size());
  }
  return result;
}

int cells_in(std::string_view text) {
  const Utf8Widths widths;
  int cells = 0;
  while (!text.empty()) {
    const Glyph glyph = first_glyph(text);
    cells += std::max(glyph.cells, 0);
    text.remove_prefix(glyph.bytes.size());
  }
  return cells;
}

std::string cut_to(std::string_view text, int cells) {
  const Utf8Widths widths;
  std::size_t kept = 0;  // bytes that fit beside "…"
  std::size_t at = 0;    // bytes that fit
  int seen = 0;
  while (at < text.size()) {
    const Glyph glyph = first_glyph(text.substr(at));
    seen += std::max(glyph.cells, 0);
    if (seen > cells) return cells < 1 ? std::string() : std::string(text.substr(0, kept)) + "…";
    at += glyph.bytes.size();
    if (seen <= cells - 1) kept = at;
  }
  return std::string(text);
}

std::string padded_to(std::string_view text, int cells, Side side) {
  std::string cut = cut_to(text, cells);
  const int missing = std::max(cells - cells_in(cut), 0);
  const std::string blanks(static_cast<std::size_t>(missing), ' ');
  return side == Side::kLeft ? cut + blanks : blanks + cut;
}

std::string end_of(std::string_view text, int cells) {
  const Utf8Widths widths;
  int left = cells_in(text);
  while (left > cells) {
    const Glyph glyph = first_glyph(text);
    left -= std::max(glyph.cells, 0);
    text.remove_prefix(glyph.bytes.size());
  }
  return std::string(text);
}

std::string without_last(std::string_view text) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < text.size(); at += first_glyph(text.substr(at)).bytes.size()) last = at;
  return std::string(text.substr(0, last));
}

}  // namespace muster::cli::top
