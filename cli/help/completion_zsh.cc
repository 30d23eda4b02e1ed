// Completion for zsh, by means of zsh's own function _arguments.
#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/completion.h"

namespace muster::cli::inline help {
namespace {

// Escapes text for single quotes and for the brackets of an _arguments specification.
std::string escaped(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c == '\'') {
      result += "'\\''";
    } else if (c == '[' || c == ']' || c == ':' || c == '\\') {
      result += fmt::format("\\{}", c);
    } else {
      result += c;
    }
  }
  return result;
}

constexpr ValueActions kZshActions = {.choices = "({})",
                                      .file = "_files",
                                      .directory = "_directories",
                                      .host = "_hosts",
                                      .job_template = "{compadd -- $(muster templates --names 2>/dev/null)}",
                                      .nothing = " "};

// Returns one specification for each spelling. The spellings of a flag exclude each other unless it may be repeated.
std::string specifications(const Flag& flag) {
  std::vector<std::string> spellings;
  for (const Spelling& spelling : flag.spellings) spellings.emplace_back(spelling.text);
  const bool repeats = flag.repeat != Repeat::kLastCounts;
  const std::string others = repeats ? "*" : fmt::format("({})", base::join(spellings, " "));
  std::string text;
  for (const Spelling& spelling : flag.spellings) {
    const bool takes_value = spelling.value.empty();
    const bool is_long = spelling.text.starts_with("--");
    text +=
        fmt::format("    '{}{}{}[{}]", others, spelling.text, takes_value && is_long ? "=" : "", escaped(flag.help));
    for (int i = 0; takes_value && i < flag.values; ++i) {
      text += fmt::format(":{}:{}", escaped(flag.value_name), value_action(flag, kZshActions));
    }
    text += "' \\\n";
  }
  return text;
}

std::string zsh_options_function(const std::string& name, const FlagTable& table) {
  std::string text = fmt::format("{}() {{\n  _arguments -S -A '-*' \\\n", name);
  for (const Flag& flag : table.flags()) text += specifications(flag);
  return text + "    '*:::command:_normal'\n}\n";
}

}  // namespace

std::string zsh_completion(const CompletedProgram& program) {
  std::string text = fmt::format("#compdef {}\n", program.name);
  const std::string verbs = verb_names(program);
  std::string cases;
  for (const CompletedProgram::Verb& verb : program.verbs) {
    const std::string name = function_name(program.name, verb.name) + "_options";
    text += zsh_options_function(name, *verb.table);
    cases += fmt::format("      {}) shift words; ((CURRENT--)); {} ;;\n", verb.name, name);
  }
  const std::string main = function_name(program.name, "");
  if (verbs.empty()) {
    text += fmt::format("{}() {{ {}_options }}\n", main, main);
  } else {
    text += fmt::format("{}() {{\n  if ((CURRENT == 2)); then\n    _values verb {}\n  else\n    case $words[2] in\n{}",
                        main, verbs, cases);
    text += "    esac\n  fi\n}\n";
  }
  return text +
         fmt::format("if [[ $funcstack[1] == {0} ]]; then {0} \"$@\"; else compdef {0} {1}; fi\n", main, program.name);
}

}  // namespace muster::cli::help
