// Completion for bash. bash splits words at '=', so --timeout=5m arrives as three words.
#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/completion.h"

namespace muster::cli::inline help {
namespace {

// The options of compgen. Empty if the value is not completed.
constexpr ValueActions kBashActions = {.choices = "-W '{}'",
                                       .file = "-f",
                                       .directory = "-d",
                                       .host = "-A hostname",
                                       .job_template = "-f -W \"$(muster templates --names 2>/dev/null)\"",
                                       .nothing = ""};

std::string all_spellings(const FlagTable& table) {
  std::vector<std::string> all;
  for (const Flag& flag : table.flags()) {
    for (const Spelling& spelling : flag.spellings) all.emplace_back(spelling.text);
  }
  return base::join(all, " ");
}

std::string value_cases(const FlagTable& table) {
  std::string text;
  for (const Flag& flag : table.flags()) {
    const std::string spellings = base::join(spellings_with_value(flag), "|");
    const std::string action = value_action(flag, kBashActions);
    if (spellings.empty() || action.empty()) continue;
    text += fmt::format("      {}) COMPREPLY=($(compgen {} -- \"$word\")) ;;\n", spellings, action);
  }
  return text;
}

// Returns a shell function. Its $1 is the index of the first word after the program (and its verb).
std::string bash_options_function(const std::string& name, const FlagTable& table) {
  const std::string one = spellings_with_values(table, 1, "|");
  const std::string two = spellings_with_values(table, 2, "|");
  std::string text = fmt::format("{}() {{\n", name);
  text += "  local word=${COMP_WORDS[COMP_CWORD]} option= command= i=$1 values\n";
  text += "  while ((i < COMP_CWORD)); do\n";
  text += "    option=${COMP_WORDS[i]} values=0\n";
  text += "    case $option in\n";
  text += "      --) ((i++)); option= command=1; break ;;\n";
  if (!one.empty()) text += fmt::format("      {}) values=1 ;;\n", one);
  if (!two.empty()) text += fmt::format("      {}) values=2 ;;\n", two);
  text += "      -*) ;;\n";
  text += "      *) option= command=1; break ;;\n";
  text += "    esac\n";
  text += "    ((i++))\n";
  text += "    [[ $values != 0 && ${COMP_WORDS[i]} == = ]] && ((i++))\n";
  text += "    ((i + values > COMP_CWORD)) && break\n";
  text += "    ((i += values)); option=\n";
  text += "  done\n";
  text += "  [[ $word == = ]] && word=\n";
  text += "  if [[ $option ]]; then\n";
  text += "    case $option in\n";
  text += value_cases(table);
  text += "    esac\n";
  text += "  elif [[ $command ]] && ((i < COMP_CWORD)); then\n";
  text += "    declare -F _command_offset >/dev/null && _command_offset \"$i\"\n";
  text += "  elif [[ ! $command && $word == -* ]]; then\n";
  text += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"$word\"))\n", all_spellings(table));
  text += "  else\n";
  text += "    COMPREPLY=($(compgen -A command -A file -- \"$word\"))\n";
  text += "  fi\n";
  return text + "}\n";
}

}  // namespace

std::string bash_completion(const CompletedProgram& program) {
  std::string text = fmt::format("# bash completion for {}\n", program.name);
  const std::string verbs = verb_names(program);
  std::string cases;
  for (const CompletedProgram::Verb& verb : program.verbs) {
    const std::string name = function_name(program.name, verb.name) + "_options";
    text += bash_options_function(name, *verb.table);
    cases += fmt::format("    {}) {} {} ;;\n", verb.name.empty() ? "*" : verb.name, name, verb.name.empty() ? 1 : 2);
  }
  text += fmt::format("{}() {{\n  COMPREPLY=()\n", function_name(program.name, ""));
  if (!verbs.empty()) {
    text += "  if ((COMP_CWORD == 1)); then\n";
    text += fmt::format("    COMPREPLY=($(compgen -W '{}' -- \"${{COMP_WORDS[1]}}\"))\n    return\n  fi\n", verbs);
  }
  text += "  case ${COMP_WORDS[1]} in\n" + cases + "  esac\n}\n";
  return text +
         fmt::format("complete -o bashdefault -o default -F {} {}\n", function_name(program.name, ""), program.name);
}

}  // namespace muster::cli::help
