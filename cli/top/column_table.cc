#include "cli/top/column_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace muster::cli::inline top {
namespace {

constexpr int kGap = 2;  // cells between columns

std::string plain_text(const ScreenCell& cell) {
  std::string text;
  for (const StyledText& part : cell) text += harmless(part.text);
  return text;
}

std::vector<int> natural_widths(const std::vector<ScreenColumn>& columns, const std::vector<ScreenRow>& rows) {
  std::vector<int> widths;
  for (std::size_t i = 0; i < columns.size(); ++i) {
    int width = cells_in(columns[i].title);
    for (const ScreenRow& row : rows) {
      if (i < row.cells.size() && row.cells.size() > 1) width = std::max(width, cells_in(plain_text(row.cells[i])));
    }
    widths.push_back(std::min(width, std::max(columns[i].most_cells, cells_in(columns[i].title))));
  }
  // The last column needs no more than is worth showing.
  if (!columns.empty()) widths.back() = columns.back().most_cells;
  return widths;
}

// Returns the indices of the columns that fit into `width`, at least one.
std::vector<std::size_t> shown_columns(const std::vector<ScreenColumn>& columns, const std::vector<int>& widths,
                                       int width) {
  std::vector<std::size_t> shown(columns.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  while (shown.size() > 1) {
    int needed = -kGap;
    for (const std::size_t i : shown) needed += widths[i] + kGap;
    if (needed <= width) break;
    shown.erase(std::ranges::min_element(
        shown, {}, [&](std::size_t i) { return std::pair(columns[i].importance, -static_cast<int>(i)); }));
  }
  return shown;
}

// Appends the cell's parts, cut to `cells`. Blanks on one side fill it, unless it is the last one of its line.
void append_cell(StyledLine& line, const ScreenCell& cell, int cells, Side side, bool is_last) {
  const StyledLine cut = fitted({.parts = cell}, cells);
  const int missing = std::max(cells - cells_in(text_of(cut)), 0);
  const StyledText blanks{std::string(static_cast<std::size_t>(missing), ' ')};
  if (side == Side::kRight && missing > 0) line.parts.push_back(blanks);
  line.parts.insert(line.parts.end(), cut.parts.begin(), cut.parts.end());
  if (side == Side::kLeft && missing > 0 && !is_last) line.parts.push_back(blanks);
}

}  // namespace

std::vector<StyledLine> table_lines(const std::vector<ScreenColumn>& columns, const std::vector<ScreenRow>& rows,
                                    int width) {
  const std::vector<int> widths = natural_widths(columns, rows);
  const std::vector<std::size_t> shown = shown_columns(columns, widths, width);
  const auto line_of = [&](const std::vector<ScreenCell>& cells) {
    StyledLine line;
    int left = width;
    for (const std::size_t i : shown) {
      const bool is_last = i == shown.back();
      const bool takes_rest = is_last && i + 1 == columns.size();
      const int cells_here = takes_rest ? left : std::min(widths[i], left);
      append_cell(line, cells[i], cells_here, columns[i].side, is_last);
      left -= cells_here + kGap;
      if (!is_last) line.parts.push_back({std::string(kGap, ' ')});
    }
    return line;
  };
  std::vector<ScreenCell> titles;
  for (const ScreenColumn& column : columns) titles.push_back({{column.title, TextStyle::kHeading}});
  std::vector<StyledLine> lines{line_of(titles)};
  for (const ScreenRow& row : rows) {
    StyledLine line = row.cells.size() == columns.size() ? line_of(row.cells) : StyledLine{.parts = row.cells.at(0)};
    line.is_selected = row.is_selected;
    lines.push_back(fitted(line, width));
  }
  return lines;
}

std::string load_bar(double part, const std::string& label, int cells) {
  const int inside = cells - 2;
  if (inside < 1) return cut_to(label, cells);
  const double bounded = std::isfinite(part) ? std::clamp(part, 0.0, 1.0) : 0.0;
  const int filled = static_cast<int>(std::lround(bounded * inside));
  std::string bar =
      std::string(static_cast<std::size_t>(filled), '|') + std::string(static_cast<std::size_t>(inside - filled), ' ');
  const std::string text = cut_to(label, inside);
  const int room = inside - cells_in(text);
  return "[" + bar.substr(0, static_cast<std::size_t>(room)) + text + "]";
}

}  // namespace muster::cli::top
