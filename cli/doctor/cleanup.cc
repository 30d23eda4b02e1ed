#include "cli/doctor/cleanup.h"

#include "base/strings.h"

namespace muster::cli::inline doctor {
namespace {

constexpr std::size_t kJobIdLength = 8;
constexpr std::string_view kJobIdLetters = "abcdefghijklmnopqrstuvwxyz234567";

base::Status read_job(const ParsedOption& option, std::string& job) {
  if (option.value.empty() || option.value.size() > kJobIdLength ||
      option.value.find_first_not_of(kJobIdLetters) != std::string::npos) {
    return base::invalid_argument("{} must be a job id or its beginning, not '{}'", option.spelling,
                                  base::printable(option.value));
  }
  job = option.value;
  return base::ok_status();
}

base::Result<bool> take(const ParsedOption& option, ParsedCleanup& parsed) {
  if (option.flag->name == "json") {
    parsed.json = true;
  } else if (option.flag->name == "dry-run") {
    parsed.dry_run = true;
  } else if (option.flag->name == "job") {
    MUSTER_RETURN_IF_ERROR(read_job(option, parsed.job));
  } else {
    return false;
  }
  return true;
}

}  // namespace

ParsedCleanup parse_cleanup(const std::vector<std::string>& arguments, const base::Environment& environment,
                            const ParseContext& context) {
  ParsedCleanup parsed;
  const HostVerb verb{.doc = cleanup_doc(),
                      .take = [&parsed](const ParsedOption& option) { return take(option, parsed); },
                      .advice =
                          [](const std::vector<std::string>&) {
                            return std::string("hosts are named by -H or --hostfile, a job by --job");
                          }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, arguments, environment, context);
  return parsed;
}

}  // namespace muster::cli::doctor
