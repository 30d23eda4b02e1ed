// This file builds the flag table of a template's command line (TableMaker), and reads the line with it.
// Read from the end: read_template_line(), then TableMaker and add_extra(); hvdrun_words() stands alone.
#include "cli/options/template_line.h"

#include <algorithm>
#include <iterator>

#include "base/strings.h"
#include "cli/help/base_names.h"
#include "cli/options/command_line.h"
#include "cli/options/hvdrun_flags.h"
#include "cli/options/programs.h"
#include "cli/options/template_defaults.h"

namespace muster::cli::inline options {
namespace {

using job_templates::Parameter;
using job_templates::ParameterType;

// The groups of hvdrun's options that a script may contain.
constexpr FlagGroup kJobGroups[] = {FlagGroup::kRanks,  FlagGroup::kHosts, FlagGroup::kSsh,   FlagGroup::kProgram,
                                    FlagGroup::kOutput, FlagGroup::kLife,  FlagGroup::kTuning};

bool has_spelling(const std::vector<Flag>& flags, std::string_view text) {
  return std::ranges::any_of(flags, [&](const Flag& flag) {
    return std::ranges::find(flag.spellings, text, &Spelling::text) != flag.spellings.end();
  });
}

class TableMaker {
 public:
  TableMaker(const std::vector<Flag>& own, const job_templates::Template& job_template) {
    constexpr std::string_view kKept[] = {"template", "set", "hvdrun", "script", "help", "short-help"};
    for (const Flag& flag : own) {
      const bool is_kept = std::ranges::find(kKept, flag.name) != std::end(kKept);
      if (is_kept || job_template.parameter(flag.name) == nullptr) flags_.push_back(flag);
    }
  }

  void add_parameter(const Parameter& parameter) {
    const std::string_view name = keep(parameter.name);
    Flag flag;
    flag.name = name;
    // kTorch marks the template's parameters; the verb and hvdrun have no such flags here. It is never shown.
    flag.group = FlagGroup::kTorch;
    if (parameter.type == ParameterType::kBool) {
      flag.spellings = {{keep(fmt::format("--{}", name)), "true"}, {keep(fmt::format("--no-{}", name)), "false"}};
    } else {
      flag.values = 1;
      flag.value_name = "VALUE";
      flag.spellings = {{keep(fmt::format("--{}", name))}};
      for (const Flag& each : hvdrun_flags().flags()) {
        if (each.name != name || each.values != 1) continue;
        for (const Spelling& spelling : each.spellings) {
          if (spelling.value.empty() && spelling.text != flag.spellings[0].text) flag.spellings.push_back(spelling);
        }
      }
    }
    add(std::move(flag));
  }

  void add_hvdrun() {
    for (const Flag& flag : hvdrun_flags().flags()) {
      if (std::ranges::find(kJobGroups, flag.group) != std::end(kJobGroups)) add(flag);
    }
  }

  void finish(TemplateLine& line) {
    line.table = std::make_shared<const FlagTable>(std::move(flags_));
    line.names = names_;
  }

 private:
  std::string_view keep(std::string text) { return names_->emplace_back(std::move(text)); }

  // Adds `flag` with those of its spellings that no earlier flag uses.
  void add(Flag flag) {
    std::erase_if(flag.spellings, [&](const Spelling& spelling) { return has_spelling(flags_, spelling.text); });
    if (!flag.spellings.empty()) flags_.push_back(std::move(flag));
  }

  std::vector<Flag> flags_;
  std::shared_ptr<std::deque<std::string>> names_ = std::make_shared<std::deque<std::string>>();
};

void add_extra(const ParsedOption& option, job_templates::ScriptRequest& script) {
  std::vector<std::string> words = {option.spelling};
  const auto spelling = hvdrun_flags().find(option.spelling);
  if (spelling && spelling->spelling->value.empty()) words.push_back(option.value);
  const FlagGroup group = option.flag->group;
  if (group == FlagGroup::kHosts || group == FlagGroup::kSsh) script.reach.push_back(words);
  script.extra.push_back(std::move(words));
  const auto overruled = job_templates::overruled_by(option.flag->name, option.value);
  script.left_out.insert(script.left_out.end(), overruled.begin(), overruled.end());
}

}  // namespace

Status set_parameter(std::string_view assignment, job_templates::Values& values) {
  const auto equals = assignment.find('=');
  if (equals == std::string_view::npos || equals == 0) {
    return base::invalid_argument("--set takes NAME=VALUE, not '{}'", base::printable(assignment));
  }
  const std::string_view name = assignment.substr(0, equals);
  return values.set(name, assignment.substr(equals + 1), fmt::format("--set {}", base::printable(name)));
}

std::vector<FlagRow> with_template_rows(std::vector<FlagRow> rows) {
  rows.push_back(option("template", {"-t", "--template"}, "NAME|FILE",
                        "The job template: built in, ~/.config/muster/templates/NAME.yaml, ./NAME.yaml, or a file.")
                     .any_value()
                     .completes(Completes::kTemplate)
                     .command_line_only());
  rows.push_back(
      option("set", {"--set"}, "NAME=VALUE", "A parameter of the template; --NAME VALUE does the same. Repeatable.")
          .repeats(Repeat::kAddsUp)
          .command_line_only());
  rows.push_back(
      option("hvdrun", {"--hvdrun"}, "PATH", "The hvdrun that the script calls (default: the one beside muster).")
          .completes(Completes::kFile)
          .command_line_only());
  return rows;
}

std::optional<std::string> named_template(const std::vector<std::string>& arguments, const FlagTable& table) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word.size() < 2 || word.front() != '-' || word == "--") return std::nullopt;
    if (word == "-t" || word == "--template") {
      return i + 1 < arguments.size() ? std::optional(arguments[i + 1]) : std::nullopt;
    }
    constexpr std::string_view kAttached = "--template=";
    if (word.starts_with(kAttached)) return word.substr(kAttached.size());
    const auto match = table.find(word);
    if (match && match->spelling->value.empty()) i += static_cast<std::size_t>(match->flag->values);
    // --NAME=VALUE is one word. After an unknown --NAME the next word is its value, unless that word looks like an
    // option.
    const bool is_whole = word.find('=') != std::string::npos || word.starts_with("--no-");
    if (!match && !is_whole && i + 1 < arguments.size() && !arguments[i + 1].starts_with('-')) ++i;
  }
  return std::nullopt;
}

Result<TemplateLine> read_template_line(const std::vector<std::string>& arguments, const std::string& name,
                                        const std::vector<Flag>& own, const base::Environment& environment) {
  MUSTER_ASSIGN_OR_RETURN(auto found, find_template(name, environment));
  auto kept = std::make_unique<job_templates::Template>(std::move(found));
  job_templates::Values values(*kept);
  TemplateLine line{std::move(kept), std::move(values), {}, {}, nullptr, nullptr, nullptr};
  TableMaker maker(own, *line.job_template);
  for (const Parameter& parameter : line.job_template->parameters) maker.add_parameter(parameter);
  maker.add_hvdrun();
  maker.finish(line);
  MUSTER_ASSIGN_OR_RETURN(CommandLine words, split_command_line(arguments, *line.table));
  if (has_programs(words, *line.table)) {
    return base::unimplemented(
        "-t takes one program: render the template's script, and write the others into its hvdrun line");
  }
  if (words.is_answered) line.help = words.options.back().flag;
  CommandLine of_verb;
  for (const ParsedOption& option : words.options) {
    if (option.flag->group == FlagGroup::kTorch) {
      MUSTER_RETURN_IF_ERROR(line.values.set(option.flag->name, option.value, option.spelling));
    } else if (option.flag->name == "set") {
      MUSTER_RETURN_IF_ERROR(set_parameter(option.value, line.values));
    } else if (std::ranges::find(own, option.flag->name, &Flag::name) != own.end()) {
      of_verb.options.push_back(option);
    } else {
      add_extra(option, line.script);
    }
  }
  MUSTER_RETURN_IF_ERROR(line.own.add_layer(settings_of(of_verb)));
  line.script.command = std::move(words.command);
  return line;
}

Result<std::vector<std::string>> hvdrun_words(const TemplateLine& line,
                                              const std::function<bool(std::string_view option)>& takes) {
  MUSTER_ASSIGN_OR_RETURN(job_templates::LaunchPlan plan, job_templates::plan_launch(line.values));
  for (const std::string_view option : line.script.left_out) plan.leave_out(option);
  std::vector<std::string> words;
  const auto add = [&](const std::vector<std::string>& more) { words.insert(words.end(), more.begin(), more.end()); };
  for (const job_templates::LaunchOption& option : plan.options) {
    if (!takes || takes(option.name)) add(option.words());
  }
  for (const auto& [name, value] : plan.environment) add({"--env", fmt::format("{}={}", name, value)});
  for (const std::vector<std::string>& option : line.script.extra) add(option);
  add({"--"});
  add(plan.prefix);
  add(line.script.command);
  return words;
}

}  // namespace muster::cli::options
