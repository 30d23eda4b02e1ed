// Lays the state of `muster top` out on a screen: lines of styled text that fit.
// Thread: any; pure.
#pragma once

#include <optional>
#include <vector>

#include "cli/top/styled_line.h"
#include "cli/top/top_state.h"

namespace muster::cli::inline top {

struct TopFrame {
  std::vector<StyledLine> lines{};     // as many as the screen has; none is wider than the screen
  std::optional<int> cursor_column{};  // of the last line, while a filter is typed
};

TopFrame frame_of(const TopState& state);

}  // namespace muster::cli::top
