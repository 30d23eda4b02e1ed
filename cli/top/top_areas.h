// Which lines of the screen show what.
// Thread: any; pure.
#pragma once

#include <cstdint>

namespace muster::cli::inline top {

enum class TopPane { kJobs, kHosts };

// A table on the screen. Without lines for them, `title` and `heading` are -1.
struct TableArea {
  int title = -1;
  int heading = -1;
  int first = 0;  // line of the first row
  int rows = 0;   // 0: the table is not on the screen

  bool holds(int line) const { return line >= first && line < first + rows; }
};

struct MainAreas {
  TableArea jobs{};
  TableArea hosts{};
};

// Divides a screen of `lines` lines between both tables. `top` lines above and one below are taken. Each table gets
// half of the rest, or less if it needs less. With fewer than three lines for both, only the active table is shown.
MainAreas main_areas(int lines, int top, std::int64_t jobs, std::int64_t hosts, TopPane active);

// One table below `head` lines of text, on a screen with `top` lines above and one below. The text gets at most half of
// the lines.
struct DetailAreas {
  int head_first = 0;
  int head_rows = 0;
  TableArea table{};
};
DetailAreas detail_areas(int lines, int top, std::int64_t head);

}  // namespace muster::cli::top
