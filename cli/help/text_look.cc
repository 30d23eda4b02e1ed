#include "cli/help/text_look.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>

#include "base/strings.h"

namespace muster::cli::inline help {
namespace {

constexpr std::size_t kLeastColumns = 60;
constexpr std::size_t kMostColumns = 110;
constexpr std::size_t kColumnsOfTerminal = 80;
constexpr long kHighestColumns = 65'535;

std::size_t columns_of(const Screen& screen, const base::Environment& environment) {
  if (screen.columns > 0) return screen.columns;
  const auto named = base::parse_decimal(environment.get("COLUMNS").value_or(""), kHighestColumns);
  if (named && *named > 0) return static_cast<std::size_t>(*named);
  return screen.is_terminal ? kColumnsOfTerminal : TextLook().columns;
}

}  // namespace

Screen screen_of(int fd) {
  Screen screen{.is_terminal = ::isatty(fd) == 1};
  winsize size{};
  if (!screen.is_terminal || ::ioctl(fd, TIOCGWINSZ, &size) != 0) return screen;
  screen.rows = size.ws_row;
  screen.columns = size.ws_col;
  return screen;
}

TextLook look_of(const Screen& screen, ColorWhen when, const base::Environment& environment) {
  return {.columns = std::clamp(columns_of(screen, environment), kLeastColumns, kMostColumns),
          .has_color = has_color(when, environment, screen.is_terminal)};
}

}  // namespace muster::cli::help
