// The help screen of `muster top`.
#pragma once

#include <vector>

#include "cli/top/styled_line.h"

namespace muster::cli::inline top {

// All keys, a line each.
const std::vector<StyledLine>& help_lines();

}  // namespace muster::cli::top
