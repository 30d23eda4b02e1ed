// Tables that fit a screen: columns are as wide as their text, and the least important ones go first if the screen is
// too narrow.
// Thread: any; pure.
#pragma once

#include <string>
#include <vector>

#include "cli/top/cell_text.h"
#include "cli/top/styled_line.h"

namespace muster::cli::inline top {

// One column. The last one of a table takes the rest of the line.
struct ScreenColumn {
  std::string title;
  Side side = Side::kLeft;
  int importance = 0;  // the columns with the lowest go first
  int most_cells = 0;  // longer text is cut; of the last column: the fewest cells that are worth showing
};

using ScreenCell = std::vector<StyledText>;

struct ScreenRow {
  std::vector<ScreenCell> cells;  // as many as the table has columns; one for a line without columns
  bool is_selected = false;
};

// Returns the heading and a line for each row, all of at most `width` cells.
std::vector<StyledLine> table_lines(const std::vector<ScreenColumn>& columns, const std::vector<ScreenRow>& rows,
                                    int width);

// Returns "[|||||    43%]" of `cells` cells for a part between 0 and 1, with `label` at its right end.
std::string load_bar(double part, const std::string& label, int cells);

}  // namespace muster::cli::top
