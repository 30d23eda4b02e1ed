#include "cli/doctor/run_agents.h"

#include "base/build_id.h"
#include "cli/doctor/agents.h"
#include "cli/doctor/agents_view.h"
#include "cli/doctor/host_query.h"
#include "cli/hosts/console.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "proto/message_json.h"

namespace muster::cli::inline doctor {
namespace {

constexpr std::string_view kAgentsVerb = "muster agents";

std::vector<std::string> agents_arguments(const ParsedAgents& parsed) {
  if (!parsed.prune) return {"--agents"};
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(parsed.unused_for);
  return {"--agents", "--prune", std::to_string(seconds.count())};
}

int list_or_prune(ParsedAgents parsed, const base::Environment& environment, const Console& console) {
  const auto hosts = hosts_to_ask(parsed.options.request, environment);
  if (!hosts.ok()) return console.fail(kAgentsVerb, kUsageError, hosts.status().message());
  const auto results =
      ask_hosts_blocking(std::string(kAgentsVerb), parsed.options, *hosts, agents_arguments(parsed), environment);
  if (!results.ok()) return console.fail(kAgentsVerb, kMusterFailed, results.status().message());
  const auto reports = launcherd::host_reports<v1::AgentsReport>(*hosts, *results, "--agents");
  std::string text;
  if (parsed.json) {
    for (const v1::AgentsReport& report : reports) text += proto::message_line(report);
  } else {
    text = format_agents(reports);
  }
  if (const int failed = print_answer(kAgentsVerb, text); failed != 0) return failed;
  return agents_exit_code(reports);
}

}  // namespace

int run_agents(const std::vector<std::string>& arguments) {
  return run_program(kAgentsVerb, [&](const base::Environment& environment) {
    const Console console(typed_color(arguments, agents_flags()), environment);
    const ParseContext context{.build_id = base::build_id(), .look = console.look()};
    ParsedAgents parsed = parse_agents(arguments, environment, context);
    if (parsed.exit_code) return console.reply(kAgentsVerb, {*parsed.exit_code, parsed.text, parsed.is_help});
    return list_or_prune(std::move(parsed), environment, console);
  });
}

}  // namespace muster::cli::doctor
