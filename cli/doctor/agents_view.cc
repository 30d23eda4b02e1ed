#include "cli/doctor/agents_view.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/text_rows.h"
#include "model/exit_code.h"
#include "model/host_group.h"

namespace muster::cli::inline doctor {
namespace {

using AgentRow = std::vector<std::string>;

constexpr std::size_t kLongestHosts = 40;  // bytes of the column of hosts

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

void add_remarks(const v1::AgentsReport& report, std::vector<model::HostText>& remarks) {
  const std::string host = base::printable(report.host());
  for (const std::string* const problem : {&report.unreachable(), &report.problem()}) {
    if (!problem->empty()) remarks.push_back({host, fmt::format("{}: unknown: {}", host, base::printable(*problem))});
  }
  for (const auto* const stored : {&report.agents(), &report.environments()}) {
    for (const v1::StoredAgent& each : *stored) {
      if (each.problem().empty()) continue;
      remarks.push_back({host, fmt::format("{}: {}", host, base::printable(each.problem()))});
    }
  }
}

// Joins rows that differ only in the host, if at least kFewestGrouped hosts have them.
std::vector<AgentRow> joined_rows(const std::vector<AgentRow>& rows) {
  std::map<AgentRow, std::vector<std::string>> hosts_of;  // by the other columns
  const auto rest_of = [](const AgentRow& row) { return AgentRow(row.begin() + 1, row.end()); };
  for (const AgentRow& row : rows) hosts_of[rest_of(row)].push_back(row.front());
  std::vector<AgentRow> joined;
  for (const AgentRow& row : rows) {
    std::vector<std::string>& hosts = hosts_of[rest_of(row)];
    if (hosts.empty()) continue;  // their row is there
    joined.push_back(row);
    if (hosts.size() < model::kFewestGrouped) continue;
    joined.back().front() = model::short_host_list(hosts, kLongestHosts);
    hosts.clear();
  }
  return joined;
}

}  // namespace

std::string format_agents(const std::vector<v1::AgentsReport>& reports) {
  std::vector<AgentRow> rows;
  std::vector<model::HostText> remarks;
  std::int64_t bytes = 0;
  std::int64_t removed_bytes = 0;
  int removed = 0;
  std::int64_t environment_bytes = 0;
  std::size_t environments = 0;
  for (const v1::AgentsReport& report : reports) {
    for (const v1::StoredAgent& environment : report.environments()) {
      rows.push_back(agent_row(base::printable(report.host()), environment));
      environment_bytes += environment.size_bytes();
      ++environments;
      if (!environment.is_removed()) continue;
      ++removed;
      removed_bytes += environment.size_bytes();
    }
    for (const v1::StoredAgent& agent : report.agents()) {
      rows.push_back(agent_row(base::printable(report.host()), agent));
      bytes += agent.size_bytes();
      if (!agent.is_removed()) continue;
      ++removed;
      removed_bytes += agent.size_bytes();
    }
    add_remarks(report, remarks);
  }
  const std::size_t agents = rows.size() - environments;
  std::string last = fmt::format("{} {}: {} {} with {:.1f} MB", reports.size(), reports.size() == 1 ? "host" : "hosts",
                                 agents, agents == 1 ? "agent" : "agents", static_cast<double>(bytes) / 1e6);
  if (environments > 0) {
    last += fmt::format(", {} {} with {:.1f} MB", environments, environments == 1 ? "environment" : "environments",
                        static_cast<double>(environment_bytes) / 1e6);
  }
  if (removed > 0) last += fmt::format("; {} removed ({:.1f} MB)", removed, static_cast<double>(removed_bytes) / 1e6);
  std::vector<AgentRow> table = joined_rows(rows);
  table.insert(table.begin(), {"HOST", "SIZE", "USED", "STATE", "PROGRAM"});
  std::string text = rows.empty() ? "" : format_rows(table);
  for (const std::string& line : model::group_host_texts(remarks)) text += line + "\n";
  return text + last + "\n";
}

int agents_exit_code(const std::vector<v1::AgentsReport>& reports) {
  const auto silent = [](const v1::AgentsReport& report) { return !report.unreachable().empty(); };
  if (std::ranges::all_of(reports, silent)) return model::kMusterFailed;
  const bool is_left = std::ranges::any_of(reports, [&](const v1::AgentsReport& report) {
    const auto has_problem = [](const v1::StoredAgent& stored) { return !stored.problem().empty(); };
    return silent(report) || !report.problem().empty() || std::ranges::any_of(report.agents(), has_problem) ||
           std::ranges::any_of(report.environments(), has_problem);
  });
  return is_left ? 1 : 0;
}

}  // namespace muster::cli::doctor
