// How wide a text may be, and whether it has colours.
// Thread: any. screen_of() asks the kernel; all else is pure.
#pragma once

#include <cstddef>

#include "base/env.h"
#include "cli/help/color.h"

namespace muster::cli::inline help {

struct TextLook {
  std::size_t columns = 96;
  bool has_color = false;
};

// A terminal and its size, as far as a descriptor shows them.
struct Screen {
  bool is_terminal = false;
  std::size_t rows = 0;     // 0 if unknown
  std::size_t columns = 0;  // 0 if unknown
};
Screen screen_of(int fd);

// Takes the columns of the terminal, else those of COLUMNS, else 80 for a terminal and 96 otherwise. The result is at
// least 60 and at most 110, because longer lines are hard to read.
TextLook look_of(const Screen& screen, ColorWhen when, const base::Environment& environment);

}  // namespace muster::cli::help
