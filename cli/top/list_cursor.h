// The selected row of a list, and the part of the list that the screen shows.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster::cli::inline top {

struct ListCursor {
  std::int64_t at = 0;   // selected row
  std::int64_t top = 0;  // first row on the screen

  // Selects `row` of a list with `size` rows, or the nearest one that exists. Scrolls as little as needed; `shown` rows
  // of the list are on the screen.
  void move_to(std::int64_t row, std::int64_t size, std::int64_t shown) {
    at = std::clamp<std::int64_t>(row, 0, std::max<std::int64_t>(size - 1, 0));
    const std::int64_t rows = std::max<std::int64_t>(shown, 1);
    top = std::clamp<std::int64_t>(top, at - rows + 1, at);
    top = std::clamp<std::int64_t>(top, 0, std::max<std::int64_t>(size - rows, 0));
  }
};

}  // namespace muster::cli::top
