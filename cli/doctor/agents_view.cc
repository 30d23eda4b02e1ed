#include "cli/doctor/agents_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/text_rows.h"
#include "model/exit_code.h"

namespace muster::cli::inline doctor {
namespace {

using AgentRow = std::vector<std::string>;

std::string idle_text(long seconds) {
  if (seconds < 2 * 3600) return "now";
  if (seconds < 48 * 3600) return fmt::format("{} h ago", seconds / 3600);
  return fmt::format("{} d ago", seconds / 86400);
}

std::string_view state_of(const v1::StoredAgent& agent) {
  if (agent.is_removed()) return "removed";
  if (!agent.problem().empty()) return "LEFT";
  if (agent.is_own()) return "this build";
  return agent.is_used() ? "in use" : "old";
}

AgentRow agent_row(const std::string& host, const v1::StoredAgent& agent) {
  return {host, fmt::format("{:.1f} MB", static_cast<double>(agent.size_bytes()) / 1e6), idle_text(agent.idle_s()),
          std::string(state_of(agent)), base::printable(agent.path())};
}

std::string agents_remarks(const v1::AgentsReport& report) {
  const std::string host = base::printable(report.host());
  std::string text;
  for (const std::string* const problem : {&report.unreachable(), &report.problem()}) {
    if (!problem->empty()) text += fmt::format("{}: unknown: {}\n", host, base::printable(*problem));
  }
  for (const v1::StoredAgent& agent : report.agents()) {
    if (!agent.problem().empty()) text += fmt::format("{}: {}\n", host, base::printable(agent.problem()));
  }
  return text;
}

}  // namespace

std::string format_agents(const std::vector<v1::AgentsReport>& reports) {
  std::vector<AgentRow> rows{{"HOST", "SIZE", "USED", "STATE", "PROGRAM"}};
  std::string remarks;
  std::int64_t bytes = 0;
  std::int64_t removed_bytes = 0;
  int removed = 0;
  for (const v1::AgentsReport& report : reports) {
    for (const v1::StoredAgent& agent : report.agents()) {
      rows.push_back(agent_row(base::printable(report.host()), agent));
      bytes += agent.size_bytes();
      if (!agent.is_removed()) continue;
      ++removed;
      removed_bytes += agent.size_bytes();
    }
    remarks += agents_remarks(report);
  }
  std::string last =
      fmt::format("{} {}: {} {} with {:.1f} MB", reports.size(), reports.size() == 1 ? "host" : "hosts",
                  rows.size() - 1, rows.size() == 2 ? "agent" : "agents", static_cast<double>(bytes) / 1e6);
  if (removed > 0) last += fmt::format("; {} removed ({:.1f} MB)", removed, static_cast<double>(removed_bytes) / 1e6);
  return (rows.size() > 1 ? format_rows(rows) : "") + remarks + last + "\n";
}

int agents_exit_code(const std::vector<v1::AgentsReport>& reports) {
  const auto silent = [](const v1::AgentsReport& report) { return !report.unreachable().empty(); };
  if (std::ranges::all_of(reports, silent)) return model::kMusterFailed;
  const bool is_left = std::ranges::any_of(reports, [&](const v1::AgentsReport& report) {
    return silent(report) || !report.problem().empty() ||
           std::ranges::any_of(report.agents(), [](const v1::StoredAgent& agent) { return !agent.problem().empty(); });
  });
  return is_left ? 1 : 0;
}

}  // namespace muster::cli::doctor
