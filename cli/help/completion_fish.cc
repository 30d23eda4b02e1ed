// Completion for fish.
#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/completion.h"

namespace muster::cli::inline help {
namespace {

std::string fish_quoted(std::string_view text) {
  std::string result = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\') result += '\\';
    result += c;
  }
  return result + "'";
}

constexpr ValueActions kFishActions = {.choices = " -xa '{}'",
                                       .file = " -rF",
                                       .directory = " -xa '(__fish_complete_directories)'",
                                       .host = " -xa '(__fish_print_hostnames)'",
                                       .job_template = " -rFa '(muster templates --names 2>/dev/null)'",
                                       .nothing = " -x"};

// Returns a shell function that is true while the words before the cursor are options and their values. `skip` is the
// number of words for the program and its verb.
std::string state_function(const std::string& name, const FlagTable& table, std::size_t skip) {
  const std::string one = spellings_with_values(table, 1, " ");
  const std::string two = spellings_with_values(table, 2, " ");
  std::string text = fmt::format("function {}\n", name);
  text += "  set -l words (commandline -opc)\n";
  text += fmt::format("  set -l i {}\n", skip + 1);
  text += "  while test $i -le (count $words)\n";
  text += "    switch $words[$i]\n";
  text += "      case --\n        return 1\n";
  if (!one.empty()) text += fmt::format("      case {}\n        set i (math $i + 2)\n", one);
  if (!two.empty()) text += fmt::format("      case {}\n        set i (math $i + 3)\n", two);
  text += "      case '-*'\n        set i (math $i + 1)\n";
  text += "      case '*'\n        return 1\n";
  return text + "    end\n  end\nend\n";
}

std::string spelling_of(std::string_view text) {
  if (text.starts_with("--")) return fmt::format("-l {}", text.substr(2));
  return text.size() == 2 ? fmt::format("-s {}", text.substr(1)) : fmt::format("-o {}", text.substr(1));
}

std::string options_of(std::string_view program, const std::string& condition, const FlagTable& table) {
  std::string text;
  for (const Flag& flag : table.flags()) {
    for (const Spelling& spelling : flag.spellings) {
      text +=
          fmt::format("complete -c {} -n {} {}{} -d {}\n", program, fish_quoted(condition), spelling_of(spelling.text),
                      spelling.value.empty() ? value_action(flag, kFishActions) : "", fish_quoted(flag.help));
    }
  }
  return text;
}

}  // namespace

std::string fish_completion(const CompletedProgram& program) {
  std::string text = fmt::format("# fish completion for {}\n", program.name);
  for (const CompletedProgram::Verb& verb : program.verbs) {
    const std::string state = "_" + function_name(program.name, verb.name) + "_at_options";
    text += state_function(state, *verb.table, verb.name.empty() ? 1 : 2);
    std::string condition = state;
    if (!verb.name.empty()) {
      text += fmt::format("complete -c {} -n __fish_is_first_arg -xa {}\n", program.name, fish_quoted(verb.name));
      condition = fmt::format("__fish_seen_subcommand_from {}; and {}", verb.name, state);
    }
    text += options_of(program.name, condition, *verb.table);
  }
  return text;
}

}  // namespace muster::cli::help
