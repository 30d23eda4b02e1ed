#include "cli/help/completion.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "base/strings.h"

namespace muster::cli::inline help {

std::optional<std::string> completion(std::string_view shell, const CompletedProgram& program) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  return std::nullopt;
}

std::string value_action(const Flag& flag, const ValueActions& actions) {
  if (!flag.choices.empty()) {
    const std::vector<std::string> words(flag.choices.begin(), flag.choices.end());
    return fmt::format(fmt::runtime(actions.choices), base::join(words, " "));
  }
  switch (flag.completes) {
    case Completes::kFile:
      return std::string(actions.file);
    case Completes::kDirectory:
      return std::string(actions.directory);
    case Completes::kHost:
      return std::string(actions.host);
    case Completes::kTemplate:
      return std::string(actions.job_template);
    case Completes::kNothing:
      break;
  }
  return std::string(actions.nothing);
}

std::vector<std::string> spellings_with_value(const Flag& flag) {
  std::vector<std::string> spellings;
  for (const Spelling& spelling : flag.spellings) {
    if (spelling.value.empty()) spellings.emplace_back(spelling.text);
  }
  return spellings;
}

std::string spellings_with_values(const FlagTable& table, int values, std::string_view separator) {
  std::vector<std::string> all;
  for (const Flag& flag : table.flags()) {
    if (flag.values != values) continue;
    for (std::string& spelling : spellings_with_value(flag)) all.push_back(std::move(spelling));
  }
  return base::join(all, separator);
}

std::string verb_names(const CompletedProgram& program) {
  std::vector<std::string> names;
  for (const CompletedProgram::Verb& verb : program.verbs) names.emplace_back(verb.name);
  return base::join(names, " ");
}

std::string function_name(std::string_view program, std::string_view verb) {
  std::string name = "_" + std::string(program);
  if (!verb.empty()) name += "_" + std::string(verb);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace muster::cli::help
