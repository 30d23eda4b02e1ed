// Console is how a program talks about itself: help on stdout, mistakes on stderr, both as the user wants them. It
// decides colours, width and pager; cli/help/color writes the colours.
// Thread: main, before other threads start.
// Example:
//
//   const Console console(typed_color(words, hvdrun_flags()), environment);
//   if (is_help) return console.help("hvdrun", help_text(hvdrun_doc(), console.look()));
//   return console.fail("hvdrun", kUsageError, "unknown option --hots");
#pragma once

#include <string_view>

#include "base/env.h"
#include "cli/help/text_look.h"

namespace muster::cli::inline hosts {

// The answer to a command line that runs nothing.
struct Reply {
  int exit_code = 0;
  std::string_view text = {};  // whole lines; a mistake begins with the program's name and ": "
  bool is_help = false;
};

class Console {
 public:
  Console(ColorWhen when, const base::Environment& environment);

  // Returns how help on stdout must look.
  const TextLook& look() const { return look_; }
  // True if lines on stderr have colours.
  bool marks_errors() const { return marks_errors_; }

  // Prints the reply and returns the exit code. With 0 the text goes to stdout, and a failure to write there is
  // reported. Otherwise it goes to stderr.
  int reply(std::string_view program, const Reply& reply) const;

  // Prints help on stdout, through a pager if stdout is a terminal and the text is longer than it.
  int help(std::string_view program, std::string_view text) const;

  // Prints "`program`: `message`" on stderr. Returns `code`.
  int fail(std::string_view program, int code, std::string_view message) const;

 private:
  const base::Environment environment_;
  const Screen screen_;
  const TextLook look_;
  const bool marks_errors_;
  const Paint errors_;
};

// True if lines on stderr have colours.
bool has_color_on_stderr(ColorWhen when, const base::Environment& environment);

}  // namespace muster::cli::hosts
