// Text in the cells of a terminal: made harmless, measured, cut and padded. Widths are those of the C library, as
// ncurses has them: 2 for a wide character, 0 for one that joins the character before it.
// Thread: any; pure.
#pragma once

#include <string>
#include <string_view>

namespace muster::cli::inline top {

// Returns `text` as one line that cannot control a terminal. Bytes of control characters, of characters that have no
// width and of invalid UTF-8 become \xNN. Applying it twice changes nothing more.
std::string harmless(std::string_view text);

// Returns the number of cells that harmless text takes.
int cells_in(std::string_view text);

// Returns as many characters of harmless text as fit into `cells`. If some are left out, the last one is "…".
std::string cut_to(std::string_view text, int cells);

enum class Side { kLeft, kRight };

// Returns exactly `cells` cells: cut_to(), with blanks on the other side.
std::string padded_to(std::string_view text, int cells, Side side = Side::kLeft);

// Returns the longest end of harmless text that takes at most `cells`.
std::string end_of(std::string_view text, int cells);

// Returns the text without its last character; empty stays empty.
std::string without_last(std::string_view text);

}  // namespace muster::cli::top
