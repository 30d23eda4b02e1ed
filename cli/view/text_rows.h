// Formats rows of texts as a table. Thread: any; pure.
#pragma once

#include <string>
#include <vector>

namespace muster::cli::inline view {

// Returns one line for each row. Each column but the last is as wide as its longest text; two blanks are between
// columns. All rows have the same number of texts, at least one.
std::string format_rows(const std::vector<std::vector<std::string>>& rows);

}  // namespace muster::cli::view
