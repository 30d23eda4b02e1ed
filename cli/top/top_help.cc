#include "cli/top/top_help.h"

#include <array>
#include <string_view>
#include <utility>

#include "cli/top/cell_text.h"

namespace muster::cli::inline top {
namespace {

using HelpRow = std::pair<std::string_view, std::string_view>;

constexpr auto kHelpRows = std::to_array<HelpRow>({
    {"q", "end muster top (also Ctrl-C)"},
    {"Tab", "go to the other table"},
    {"Up k, Down j", "select a row"},
    {"PgUp, PgDn", "scroll by a page"},
    {"Home g, End G", "go to the first or the last row"},
    {"Enter", "open the job or the host"},
    {"Esc, Backspace", "go back; drop the filter"},
    {"s", "sort by the next column"},
    {"r", "reverse the order"},
    {"/", "filter: words that a row must have"},
    {"a", "all jobs, also ended ones"},
    {"Ctrl-L", "draw the screen again"},
    {"Ctrl-Z", "pause; fg goes on"},
    {"mouse", "wheel: scroll; click: select; again: open"},
    {"?", "this help; any other key closes it"},
});

}  // namespace

const std::vector<StyledLine>& help_lines() {
  static const std::vector<StyledLine> kLines = [] {
    constexpr int kKeyCells = 16;
    std::vector<StyledLine> lines;
    for (const HelpRow& row : kHelpRows) {
      lines.push_back({.parts = {{padded_to(row.first, kKeyCells), TextStyle::kStrong}, {std::string(row.second)}}});
    }
    return lines;
  }();
  return kLines;
}

}  // namespace muster::cli::top
