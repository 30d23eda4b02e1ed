#include "cli/cleanup.h"

#include "base/strings.h"
#include "cli/command_line.h"
#include "cli/config_file.h"
#include "cli/help.h"

namespace muster::cli {
namespace {

constexpr std::size_t kJobIdLength = 8;
constexpr std::string_view kJobIdLetters = "abcdefghijklmnopqrstuvwxyz234567";

base::Status read_job(const GivenOption& option, std::string& job) {
  if (option.value.empty() || option.value.size() > kJobIdLength ||
      option.value.find_first_not_of(kJobIdLetters) != std::string::npos) {
    return base::error(base::Code::kInvalidArgument, "{} must be a job id or its beginning, not '{}'", option.spelling,
                       base::printable(option.value));
  }
  job = option.value;
  return base::ok_status();
}

base::Result<ParsedCleanup> read_line(CommandLine line, const base::Environment& environment,
                                      const ParseContext& context) {
  ParsedCleanup parsed;
  if (!line.command.empty()) {
    return base::error(base::Code::kInvalidArgument,
                       "'{}' is not an option: hosts are named by -H or --hostfile, a job by --job",
                       base::printable(line.command.front()));
  }
  // The rest is hvdrun's, with its files and variables.
  CommandLine ours;
  for (GivenOption& option : line.options) {
    if (option.flag->name == "json") {
      parsed.json = true;
    } else if (option.flag->name == "dry-run") {
      parsed.dry_run = true;
    } else if (option.flag->name == "job") {
      MUSTER_RETURN_IF_ERROR(read_job(option, parsed.job));
    } else {
      option.flag = &hvdrun_flags().named(option.flag->name);
      ours.options.push_back(std::move(option));
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const Settings settings,
                          gather_settings(ours, environment, context.system_config, hvdrun_flags()));
  MUSTER_ASSIGN_OR_RETURN(parsed.options, read_options(settings));
  return parsed;
}

}  // namespace

ParsedCleanup parse_cleanup(const std::vector<std::string>& arguments, const base::Environment& environment,
                            const ParseContext& context) {
  ParsedCleanup answer;
  auto line = split_command_line(arguments, cleanup_flags());
  if (line.ok() && line->is_answered) {
    answer.exit_code = 0;
    answer.text = help_text(cleanup_doc());
    return answer;
  }
  auto parsed = line.ok() ? read_line(std::move(*line), environment, context) : line.status();
  if (parsed.ok()) return std::move(*parsed);
  answer.exit_code = 2;
  answer.text = fmt::format("muster cleanup: {}\n", parsed.status().message());
  return answer;
}

}  // namespace muster::cli
