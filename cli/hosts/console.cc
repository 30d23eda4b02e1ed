#include "cli/hosts/console.h"

#include <unistd.h>

#include <cstdio>

#include "base/print.h"
#include "cli/hosts/pager.h"
#include "cli/hosts/standard_streams.h"

namespace muster::cli::inline hosts {

bool has_color_on_stderr(ColorWhen when, const base::Environment& environment) {
  return has_color(when, environment, ::isatty(STDERR_FILENO) == 1);
}

Console::Console(ColorWhen when, const base::Environment& environment)
    : environment_(environment),
      screen_(screen_of(STDOUT_FILENO)),
      look_(look_of(screen_, when, environment)),
      marks_errors_(has_color_on_stderr(when, environment)),
      errors_(marks_errors_) {}

int Console::reply(std::string_view program, const Reply& reply) const {
  if (reply.exit_code == 0) return reply.is_help ? help(program, reply.text) : print_answer(program, reply.text);
  const std::size_t end = reply.text.find(": ");
  const std::size_t size = end == std::string_view::npos ? 0 : end + 1;
  (void)base::print_text(stderr, errors_.error(reply.text.substr(0, size)) + std::string(reply.text.substr(size)));
  return reply.exit_code;
}

int Console::help(std::string_view program, std::string_view text) const {
  if (screen_.is_terminal && !fits_screen(text, screen_)) {
    const std::string command = pager_command(environment_);
    if (!command.empty() && page(command, text, environment_)) return 0;
  }
  return print_answer(program, text);
}

int Console::fail(std::string_view program, int code, std::string_view message) const {
  base::print_remark("{} {}\n", errors_.error(fmt::format("{}:", program)), message);
  return code;
}

}  // namespace muster::cli::hosts
