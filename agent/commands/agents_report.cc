#include "agent/commands/agents_report.h"

#include <signal.h>
#include <unistd.h>

#include "agent/proc/agent_files.h"
#include "agent/proc/session_dir.h"
#include "agent/stage/env_store.h"
#include "base/build_id.h"
#include "base/print.h"
#include "base/strings.h"
#include "base/unique_fd.h"
#include "proto/frame.h"

namespace muster::agent::inline commands {
namespace {

constexpr long kLongestIdle = 10L * 365 * 24 * 3600;
constexpr int kMaxAgents = 1000;  // keeps the report below what a bootstrap takes

bool is_prunable(const AgentFile& file, std::chrono::seconds idle) {
  return !file.is_own && !file.is_used && file.idle >= idle;
}

}  // namespace

base::Result<AgentsOptions> parse_agents(const std::vector<std::string>& arguments) {
  AgentsOptions options;
  if (arguments.empty()) return options;
  const auto seconds = arguments.size() == 2 && arguments[0] == "--prune"
                           ? base::parse_decimal(arguments[1], kLongestIdle)
                           : std::nullopt;
  if (!seconds) {
    return base::invalid_argument("--agents takes nothing, or --prune SECONDS, not '{}'",
                                  base::printable(base::join(arguments, " ")));
  }
  options.prune = std::chrono::seconds(*seconds);
  return options;
}

v1::AgentsReport make_agents_report(const std::string& folder, const AgentsOptions& options, base::WallTime now) {
  v1::AgentsReport report;
  report.set_folder(base::valid_utf8(folder));
  const auto files = find_agent_files(folder, base::build_id(), now);
  if (!files.ok()) {
    if (files.status().code() != base::Code::kNotFound) report.set_problem(base::valid_utf8(files.status().message()));
    return report;
  }
  for (const AgentFile& file : *files) {
    if (report.agents_size() == kMaxAgents) break;
    v1::StoredAgent& agent = *report.add_agents();
    agent.set_path(base::valid_utf8(file.path));
    agent.set_size_bytes(file.size);
    agent.set_idle_s(file.idle.count());
    agent.set_is_used(file.is_used);
    agent.set_is_own(file.is_own);
    if (!options.prune || !is_prunable(file, *options.prune)) continue;
    const base::Status removed = remove_agent_file(file, now);
    agent.set_is_removed(removed.ok());
    if (!removed.ok()) agent.set_problem(base::valid_utf8(removed.message()));
  }
  return report;
}

void add_environments(const std::vector<std::string>& folders, const AgentsOptions& options, v1::AgentsReport& report) {
  for (const std::string& folder : folders) {
    if (!is_private_directory(folder)) continue;
    const auto store = EnvStore::open(folder);
    if (!store.ok()) continue;
    for (const StoredEnv& each : store->list()) {
      if (report.environments_size() == kMaxAgents) return;
      v1::StoredAgent& environment = *report.add_environments();
      environment.set_path(base::valid_utf8(each.path));
      environment.set_size_bytes(static_cast<std::int64_t>(each.bytes));
      environment.set_idle_s(each.idle.count());
      environment.set_is_used(each.is_used);
      if (!options.prune || each.is_used || each.idle < *options.prune) continue;
      const auto removed = store->remove(each.path.substr(each.path.rfind('/') + 1));
      environment.set_is_removed(removed.ok() && *removed);
      if (!removed.ok()) environment.set_problem(base::valid_utf8(removed.status().message()));
    }
  }
}

base::Status report_agents(const std::vector<std::string>& arguments) {
  ::signal(SIGPIPE, SIG_IGN);
  MUSTER_ASSIGN_OR_RETURN(const AgentsOptions options, parse_agents(arguments));
  mark_agent_file_used();
  v1::AgentsReport report = make_agents_report(agent_folder(), options, base::SystemClock().wall());
  std::vector<std::string> folders = session_roots("");
  for (std::string& folder : folders) folder += "/envs";
  add_environments(folders, options, report);
  MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(report));
  const std::string answer = fmt::format("MUSTER-AGENT 1 {}\n{}", base::build_id(), frame);
  return base::write_all_blocking(STDOUT_FILENO, answer.data(), answer.size());
}

void remove_forgotten_agents() {
  const v1::AgentsReport report =
      make_agents_report(agent_folder(), {.prune = kForgottenAfter}, base::SystemClock().wall());
  for (const v1::StoredAgent& agent : report.agents()) {
    if (!agent.problem().empty()) base::print_remark("muster-agent: {}\n", agent.problem());
  }
}

}  // namespace muster::agent::commands
