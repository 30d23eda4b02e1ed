#include "cli/top/styled_line.h"

#include "cli/top/cell_text.h"

namespace muster::cli::inline top {

StyledLine fitted(const StyledLine& line, int columns) {
  StyledLine result{.parts = {}, .is_selected = line.is_selected};
  int left = columns;
  for (const StyledText& part : line.parts) {
    if (left <= 0) break;
    std::string text = cut_to(harmless(part.text), left);
    left -= cells_in(text);
    if (!text.empty()) result.parts.push_back({std::move(text), part.style});
  }
  if (line.is_selected && left > 0) {
    result.parts.push_back({std::string(static_cast<std::size_t>(left), ' '), TextStyle::kPlain});
  }
  return result;
}

std::string text_of(const StyledLine& line) {
  std::string text;
  for (const StyledText& part : line.parts) text += part.text;
  return text;
}

}  // namespace muster::cli::top
