#include "cli/help/completion.h"

#include <algorithm>
#include <cctype>

namespace muster::cli::inline help {

std::optional<std::string> completion(std::string_view shell, const CompletedProgram& program) {
  if (shell == "bash") return bash_completion(program);
  if (shell == "zsh") return zsh_completion(program);
  if (shell == "fish") return fish_completion(program);
  return std::nullopt;
}

std::string function_name(std::string_view program, std::string_view verb) {
  std::string name = "_" + std::string(program);
  if (!verb.empty()) name += "_" + std::string(verb);
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

}  // namespace muster::cli::help
