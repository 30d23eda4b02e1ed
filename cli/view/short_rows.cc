#include "cli/view/short_rows.h"

#include <unistd.h>

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/text_look.h"
#include "model/host_ranges.h"

namespace muster::cli::inline view {

std::size_t rows_on_screen(bool wants_all, std::size_t tables) {
  constexpr std::size_t kFewest = 10;
  constexpr std::size_t kAround = 6;  // lines of a table's heading, of its last line, and of the shell's prompt
  const Screen screen = screen_of(STDOUT_FILENO);
  if (wants_all || !screen.is_terminal || screen.rows == 0) return kAllRows;
  const std::size_t each = screen.rows / tables;
  return std::max(each, kFewest + kAround) - kAround;
}

std::vector<std::size_t> choose_rows(std::size_t count, std::size_t most,
                                     const std::function<int(std::size_t row)>& urgency) {
  std::vector<std::size_t> rows(count);
  std::iota(rows.begin(), rows.end(), std::size_t{0});
  if (count <= most) return rows;
  std::stable_sort(rows.begin(), rows.end(),
                   [&](std::size_t one, std::size_t other) { return urgency(one) < urgency(other); });
  rows.resize(most);
  return rows;
}

std::string describe_rest(std::string_view what, std::size_t count, const std::vector<std::size_t>& shown,
                          const std::function<std::string(std::size_t row)>& state_of, std::string_view advice) {
  if (shown.size() >= count) return "";
  std::vector<bool> is_shown(count, false);
  for (const std::size_t row : shown) is_shown[row] = true;
  std::map<std::string, std::size_t> counts;
  for (std::size_t row = 0; row < count; ++row) {
    if (!is_shown[row]) ++counts[state_of(row)];
  }
  std::vector<std::pair<std::string, std::size_t>> states(counts.begin(), counts.end());
  std::ranges::sort(states, [](const auto& one, const auto& other) { return one.second > other.second; });
  constexpr std::size_t kMostStates = 5;
  std::vector<std::string> parts;
  std::size_t unnamed = 0;
  for (const auto& [state, rows] : states) {
    if (parts.size() < kMostStates) {
      parts.push_back(fmt::format("{} {}", model::format_count(rows), state));
    } else {
      unnamed += rows;
    }
  }
  if (unnamed > 0) parts.push_back(fmt::format("{} in other states", model::format_count(unnamed)));
  return fmt::format("and {} more {}: {}; {}\n", model::format_count(count - shown.size()), what,
                     base::join(parts, ", "), advice);
}

}  // namespace muster::cli::view
