#include "cli/daemon/check_launcherd.h"

#include <unistd.h>

#include <algorithm>
#include <string>

#include "base/strings.h"
#include "cli/daemon/daemon_options.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "launcherd/daemon/check.h"

namespace muster::cli::inline daemon {
namespace {

std::string settings_text(const ParsedLauncherd& parsed) {
  std::string text;
  for (const Setting& setting : parsed.settings) {
    // A file can set options of hvdrun under `muster:`. launcherd uses those of its own table.
    const bool is_ours = std::ranges::any_of(launcherd_flags().flags(),
                                             [&](const Flag& flag) { return flag.name == setting.flag->name; });
    text += fmt::format("{:<14} {:<32} {}{}\n", setting.flag->name, base::printable(setting.value),
                        base::printable(setting.origin), is_ours ? "" : " (for jobs; not used here)");
  }
  return text.empty() ? "no option is set\n" : text;
}

}  // namespace

int check_launcherd(const ParsedLauncherd& parsed, const base::Environment& environment, const Console& console) {
  launcherd::Terminal terminal(STDERR_FILENO, "stderr");
  launcherd::NoticeWriter notices(&terminal, "launcherd: ");
  auto options = daemon_options(parsed, environment, logical_working_directory(environment), notices);
  if (!options.ok()) return console.fail("launcherd", kUsageError, options.status().message());
  std::string text = settings_text(parsed) + '\n';
  std::string mistakes;
  for (const launcherd::CheckLine& line : launcherd::check_daemon(*options, base::SystemClock().wall())) {
    text += fmt::format("{:<14} {}{}\n", line.what, line.is_wrong ? "WRONG: " : "", base::printable(line.text));
    if (line.is_wrong) mistakes += fmt::format("{}{}", mistakes.empty() ? "" : "; ", line.text);
  }
  text += fmt::format("{:<14} {}\n", "agent", options->bootstrap.agent_path);
  if (const int failed = print_answer("launcherd", text); failed != 0) return failed;
  return mistakes.empty() ? 0 : console.fail("launcherd", kUsageError, mistakes);
}

}  // namespace muster::cli::daemon
