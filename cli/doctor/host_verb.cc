#include "cli/doctor/host_verb.h"

#include <algorithm>

#include "base/strings.h"
#include "cli/help/help.h"
#include "cli/options/color_option.h"
#include "cli/options/hvdrun_flags.h"
#include "model/exit_code.h"

namespace muster::cli::inline doctor {
namespace {

base::Result<HvdrunOptions> read_line(const HostVerb& verb, CommandLine line, const base::Environment& environment,
                                      const ParseContext& context) {
  if (verb.parse_words) {
    MUSTER_RETURN_IF_ERROR(verb.parse_words(line.command));
  } else if (!line.command.empty()) {
    return base::invalid_argument("'{}' is not an option: {}", base::printable(line.command.front()),
                                  verb.advice(line.command));
  }
  const FlagTable& settable = verb.settable != nullptr ? *verb.settable : hvdrun_flags();
  CommandLine given;
  for (ParsedOption& option : line.options) {
    MUSTER_ASSIGN_OR_RETURN(const bool is_taken, verb.take(option));
    if (is_taken) continue;
    option.flag = &settable.named(option.flag->name);
    given.options.push_back(std::move(option));
  }
  MUSTER_ASSIGN_OR_RETURN(const Settings settings, gather_settings(given, environment, context.system_config, settable,
                                                                   {}, NamedFile::kSettings, verb.own_file));
  if (verb.read) MUSTER_RETURN_IF_ERROR(verb.read(settings));
  return read_options(settings);
}

}  // namespace

FlagTable host_verb_flags(std::span<const std::string_view> of_hvdrun, std::vector<FlagRow> own,
                          std::vector<Argument> arguments) {
  std::vector<Flag> flags;
  for (const Flag& flag : hvdrun_flags().flags()) {
    if (std::ranges::find(of_hvdrun, flag.name) != of_hvdrun.end()) flags.push_back(flag);
  }
  own.push_back(color_row());
  add_group(FlagGroup::kGeneral, std::move(own), flags);
  add_group(FlagGroup::kGeneral, help_rows(), flags);
  return FlagTable(std::move(flags), std::move(arguments));
}

HostVerbLine read_host_verb(const HostVerb& verb, const std::vector<std::string>& arguments,
                            const base::Environment& environment, const ParseContext& context) {
  auto line = split_command_line(arguments, *verb.doc.table);
  if (line.ok() && line->is_answered) {
    const ParsedOption& option = line->options.back();
    if (!is_help(option)) return {.exit_code = 0, .text = verb.answer(option), .options = {}};
    return {
        .exit_code = 0, .text = help_text_for(*option.flag, verb.doc, context.look), .is_help = true, .options = {}};
  }
  auto options = line.ok() ? read_line(verb, std::move(*line), environment, context) : line.status();
  if (options.ok()) return {.exit_code = {}, .text = {}, .options = std::move(*options)};
  return {.exit_code = model::kUsageError,
          .text = fmt::format("{}: {}\n", verb.doc.name, options.status().message()),
          .options = {}};
}

}  // namespace muster::cli::doctor
