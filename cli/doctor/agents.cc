#include "cli/doctor/agents.h"

#include "base/strings.h"
#include "cli/options/setting_reader.h"
#include "model/exit_code.h"

namespace muster::cli::inline doctor {
namespace {

base::Result<bool> take_agents_option(const ParsedOption& option, ParsedAgents& parsed, bool& has_time) {
  if (option.flag->name == "json") {
    parsed.json = true;
  } else if (option.flag->name == "unused-for") {
    const auto time = parse_duration(option.value);
    if (!time.ok()) return base::invalid_argument("{}: {}", option.spelling, time.status().message());
    parsed.unused_for = *time;
    has_time = true;
  } else {
    return false;
  }
  return true;
}

base::Status parse_agents_words(const std::vector<std::string>& words, ParsedAgents& parsed) {
  if (words.empty()) return base::ok_status();
  if (words.size() > 1 || words.front() != "prune" || parsed.prune) {
    return base::invalid_argument("'{}' is not prune; hosts are named by -H or --hostfile",
                                  base::printable(words.back()));
  }
  parsed.prune = true;
  return base::ok_status();
}

}  // namespace

ParsedAgents parse_agents(const std::vector<std::string>& arguments, const base::Environment& environment,
                          const ParseContext& context) {
  ParsedAgents parsed;
  bool has_time = false;
  parsed.prune = !arguments.empty() && arguments.front() == "prune";
  const std::vector<std::string> options(arguments.begin() + (parsed.prune ? 1 : 0), arguments.end());
  const HostVerb verb{
      .doc = agents_doc(),
      .take = [&parsed, &has_time](const ParsedOption& option) { return take_agents_option(option, parsed, has_time); },
      .advice = [](const std::vector<std::string>&) { return std::string(); },
      .parse_words = [&parsed](const std::vector<std::string>& words) { return parse_agents_words(words, parsed); }};
  static_cast<HostVerbLine&>(parsed) = read_host_verb(verb, options, environment, context);
  if (!parsed.exit_code && has_time && !parsed.prune) {
    parsed.exit_code = model::kUsageError;
    parsed.text = "muster agents: --unused-for belongs to prune: muster agents prune --unused-for 168h\n";
  }
  return parsed;
}

}  // namespace muster::cli::doctor
