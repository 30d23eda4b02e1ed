#include "cli/help/color.h"

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {

bool is_dumb(const base::Environment& environment) {
  const std::string_view term = environment.get("TERM").value_or("");
  return term.empty() || term == "dumb";
}

bool has_color(ColorWhen when, const base::Environment& environment, bool is_terminal) {
  if (when != ColorWhen::kAuto) return when == ColorWhen::kAlways;
  if (!is_terminal || !environment.get("NO_COLOR").value_or("").empty()) return false;
  const std::string_view force = environment.get("CLICOLOR_FORCE").value_or("");
  return (!force.empty() && force != "0") || !is_dumb(environment);
}

std::string Paint::in(std::string_view code, std::string_view text) const {
  if (!has_color_) return std::string(text);
  std::string painted;
  bool is_first = true;
  for (const std::string_view line : base::split(text, '\n')) {
    if (!is_first) painted += '\n';
    is_first = false;
    const std::string_view inner = base::trim(line);
    if (inner.empty()) {
      painted += line;
      continue;
    }
    const std::size_t begin = line.find_first_not_of(" \t");
    painted +=
        fmt::format("{}\x1b[{}m{}\x1b[0m{}", line.substr(0, begin), code, inner, line.substr(begin + inner.size()));
  }
  return painted;
}

}  // namespace muster::cli::help
