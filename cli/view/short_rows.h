// Long tables on a terminal: the rows that need attention come first, and one line counts the others.
// Thread: any. rows_on_screen() asks the kernel; all else is pure.
#pragma once

#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

namespace muster::cli::inline view {

inline constexpr std::size_t kAllRows = std::numeric_limits<std::size_t>::max();

// Returns how many rows a table may have so that the answer fits on the screen, if it has `tables` tables. kAllRows if
// stdout is no terminal, or if `wants_all`, which is the option --all.
std::size_t rows_on_screen(bool wants_all, std::size_t tables = 1);

// Returns the indexes of the rows to show: all in their order if there are at most `most`. Otherwise `most` of them,
// the lowest urgency first, and equal ones in their order.
std::vector<std::size_t> choose_rows(std::size_t count, std::size_t most,
                                     const std::function<int(std::size_t row)>& urgency);

inline constexpr std::string_view kAllListsThem = "--all lists them";
// For commands whose --all means something else.
inline constexpr std::string_view kPipeListsThem = "add '| less' to see them";

// Returns "and 9,960 more hosts: 9,900 up, 60 waiting; --all lists them" and a newline. `state_of` names the state of a
// row, and `advice` says how to see all rows. Empty if all `count` rows are shown.
std::string describe_rest(std::string_view what, std::size_t count, const std::vector<std::size_t>& shown,
                          const std::function<std::string(std::size_t row)>& state_of,
                          std::string_view advice = kAllListsThem);

}  // namespace muster::cli::view
