#include "cli/verbs/complete.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>

#include <fmt/format.h>

#include "base/print.h"
#include "cli/options/template_defaults.h"
#include "cli/options/template_line.h"
#include "cli/verbs/live_words.h"

namespace muster::cli::inline verbs {
namespace {

constexpr std::chrono::milliseconds kLimit{300};  // a user takes a longer pause after TAB for a hang

// Texts that flags refer to.
using Texts = std::deque<std::string>;

Flag flag_of(const job_templates::Parameter& parameter, Texts& texts) {
  const auto keep = [&texts](std::string text) -> std::string_view { return texts.emplace_back(std::move(text)); };
  Flag flag;
  flag.name = keep(parameter.name);
  flag.help = keep(parameter.help.substr(0, parameter.help.find('\n')));
  flag.spellings = {{keep("--" + parameter.name)}};
  if (parameter.type == job_templates::ParameterType::kBool) {
    flag.spellings = {{keep("--" + parameter.name), "true"}, {keep("--no-" + parameter.name), "false"}};
  } else {
    flag.values = 1;
  }
  for (const std::string& choice : parameter.choices) flag.choices.push_back(keep(choice));
  return flag;
}

// Returns the verb's table with the parameters of the template that the line names. nullopt if it names none.
std::optional<FlagTable> with_parameters(const FlagTable& table, const std::vector<std::string>& words,
                                         const base::Environment& environment, Texts& texts) {
  const bool takes_parameters = table.find("--hvdrun").has_value();  // render and submit
  if (!takes_parameters || words.size() < 2) return std::nullopt;
  const auto name = named_template({words.begin() + 1, words.end() - 1}, table);
  if (!name) return std::nullopt;
  const auto found = find_template(*name, environment);
  if (!found.ok()) return std::nullopt;
  std::vector<Flag> flags;
  for (const job_templates::Parameter& parameter : found->parameters) flags.push_back(flag_of(parameter, texts));
  const std::size_t own = flags.size();
  for (const Flag& flag : table.flags()) {
    const bool is_parameter = std::any_of(flags.begin(), flags.begin() + static_cast<std::ptrdiff_t>(own),
                                          [&](const Flag& each) { return each.name == flag.name; });
    if (!is_parameter) flags.push_back(flag);
  }
  return FlagTable(std::move(flags), table.arguments());
}

}  // namespace

std::string completion_answer(const CompletedProgram& program, const std::vector<std::string>& words,
                              const base::Environment& environment) {
  CompletedProgram shown = program;
  Texts texts;
  std::optional<FlagTable> table;
  for (CompletedProgram::Verb& verb : shown.verbs) {
    if (verb.name.empty() || words.empty() || verb.name != words.front()) continue;
    table = with_parameters(*verb.table, words, environment, texts);
    if (table) verb.table = &*table;
  }
  Completion completion = complete_words(shown, words);
  add_live_words(completion, environment, kLimit);
  return format_completion(completion);
}

int run_complete(const CompletedProgram& program, const std::vector<std::string>& words) {
  // The shell may be gone. There is no line for an error.
  (void)base::print_text(stdout, completion_answer(program, words, base::Environment::current()));
  return 0;
}

std::optional<int> answer_shell(const CompletedProgram& program, const std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments.front() != kCompletionWord) return std::nullopt;
  return run_complete(program, {arguments.begin() + 1, arguments.end()});
}

}  // namespace muster::cli::verbs
