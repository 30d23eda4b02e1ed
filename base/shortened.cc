#include "base/shortened.h"

namespace muster::base {

std::string shortened(std::string_view text, std::size_t most) {
  constexpr std::string_view kMark = "\xe2\x80\xa6";
  if (text.size() <= most) return std::string(text);
  std::size_t end = most - kMark.size();
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U)
    --end;  // skip bytes in the middle of a character
  return std::string(text.substr(0, end)).append(kMark);
}

}  // namespace muster::base
