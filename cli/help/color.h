// Decides whether text has colours, and writes the codes that a terminal takes for them. No other file of cli/ knows
// such a code; the screen of `muster top` is drawn by its own library.
// Thread: any; pure.
// Example:
//
//   const Paint paint(has_color(ColorWhen::kAuto, environment, ::isatty(STDERR_FILENO) == 1));
//   line = paint.error("hvdrun:") + " unknown option --hots";
#pragma once

#include <string>
#include <string_view>

#include "base/env.h"

namespace muster::cli::inline help {

enum class ColorWhen { kAuto, kAlways, kNever };

// Decides for one stream. --color always and never win. With auto only a terminal gets colours, but not if NO_COLOR has
// a value, and not if the terminal is dumb. CLICOLOR_FORCE with another value than 0 overrides a dumb terminal.
bool has_color(ColorWhen when, const base::Environment& environment, bool is_terminal);

// True if the terminal takes no codes: TERM is dumb, empty or unset.
bool is_dumb(const base::Environment& environment);

// Puts codes around text. Without colours it returns the text unchanged. Blanks at both ends of a line stay outside of
// the codes, and each line has its own codes, because pagers forget a colour at the end of a line.
class Paint {
 public:
  explicit Paint(bool has_color) : has_color_(has_color) {}

  std::string heading(std::string_view text) const { return in("1", text); }
  std::string option(std::string_view text) const { return in("36", text); }
  std::string error(std::string_view text) const { return in("1;31", text); }

 private:
  std::string in(std::string_view code, std::string_view text) const;

  bool has_color_;
};

}  // namespace muster::cli::help
