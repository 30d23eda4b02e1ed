#include "cli/doctor.h"

#include "base/strings.h"
#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/help.h"

namespace muster::cli {
namespace {

base::Result<ParsedDoctor> read_line(CommandLine line, const base::Environment& environment,
                                     const ParseContext& context) {
  ParsedDoctor parsed;
  if (!line.command.empty()) {
    return base::error(base::Code::kInvalidArgument, "'{}' is not an option: hosts are named by -H {} or --hostfile",
                       base::printable(line.command.front()), base::printable(base::join(line.command, ",")));
  }
  // The rest is hvdrun's, with its files and variables.
  CommandLine ours;
  for (GivenOption& option : line.options) {
    if (option.flag->name == "json") {
      parsed.json = true;
      continue;
    }
    option.flag = &hvdrun_flags().named(option.flag->name);
    ours.options.push_back(std::move(option));
  }
  MUSTER_ASSIGN_OR_RETURN(const Settings settings,
                          gather_settings(ours, environment, context.system_config, hvdrun_flags()));
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(settings));
  return parsed;
}

}  // namespace

ParsedDoctor parse_doctor(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context) {
  auto line = split_command_line(arguments, doctor_flags());
  if (line.ok() && line->is_answered) return {.exit_code = 0, .text = help_text(doctor_doc()), .options = {}};
  auto parsed = line.ok() ? read_line(std::move(*line), environment, context) : line.status();
  if (parsed.ok()) return std::move(*parsed);
  return {.exit_code = 2, .text = fmt::format("muster doctor: {}\n", parsed.status().message()), .options = {}};
}

}  // namespace muster::cli
