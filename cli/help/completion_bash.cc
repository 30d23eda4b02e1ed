// Completion for bash. bash splits words at '=', so --timeout=5m arrives as three words.
#include <fmt/format.h>

#include "base/strings.h"
#include "cli/help/completion.h"

namespace muster::cli::inline help {
namespace {

// Returns the spellings that take a value, as a pattern of `case`.
std::string pattern(const Flag& flag) {
  std::vector<std::string> spellings;
  for (const Spelling& spelling : flag.spellings) {
    if (spelling.value.empty()) spellings.emplace_back(spelling.text);
  }
  return base::join(spellings, "|");
}

std::string patterns(const FlagTable& table, int values) {
  std::vector<std::string> all;
  for (const Flag& flag : table.flags()) {
    if (flag.values == values && !pattern(flag).empty()) all.push_back(pattern(flag));
  }
  return base::join(all, "|");
}

std::string all_spellings(const FlagTable& table) {
  std::vector<std::string> all;
  for (const Flag& flag : table.flags()) {
    for (const Spelling& spelling : flag.spellings) all.emplace_back(spelling.text);
  }
  return base::join(all, " ");
}

std::string words_of(const Flag& flag) {
  const std::vector<std::string> words(flag.choices.begin(), flag.choices.end());
  return base::join(words, " ");
}

// Returns the options of compgen that complete the option's value. Empty if the value is not completed.
std::string generator(const Flag& flag) {
  if (!flag.choices.empty()) return fmt::format("-W '{}'", words_of(flag));
  switch (flag.completes) {
    case Completes::kFile:
      return "-f";
    case Completes::kDirectory:
      return "-d";
    case Completes::kHost:
      return "-A hostname";
    case Completes::kTemplate:
      return "-f -W \"$(muster templates --names 2>/dev/null)\"";
    case Completes::kNothing:
      break;
  }
  return "";
}

std::string value_cases(const FlagTable& table) {
  std::string text;
  for (const Flag& flag : table.flags()) {
    if (pattern(flag).empty() || generator(flag).empty()) continue;
    text += fmt::format("      {}) COMPREPLY=($(compgen {} -- \"$word\")) ;;\n", pattern(flag), generator(flag));
  }
  return text;
}

// Returns a shell function. Its $1 is the index of the first word after the program (and its verb).
std::string bash_options_function(const std::string& name, const FlagTable& table) {
  const std::string one = patterns(table, 1);
  const std::string two = patterns(table, 2);
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
  std::string verbs;
  std::string cases;
  for (const CompletedProgram::Verb& verb : program.verbs) {
    const std::string name = function_name(program.name, verb.name) + "_options";
    text += bash_options_function(name, *verb.table);
    verbs += fmt::format("{}{}", verbs.empty() ? "" : " ", verb.name);
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
