#include "cli/doctor/doctor_report.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "base/strings.h"
#include "model/host_group.h"

namespace muster::cli::inline doctor {
namespace {

using model::Check;
using model::CheckState;
using model::HostDiagnosis;

constexpr std::size_t kNameWidth = 15;  // the width of "back-connection"

std::string_view word(CheckState state) {
  switch (state) {
    case CheckState::kOk:
      return "ok";
    case CheckState::kWarn:
      return "warn";
    case CheckState::kFail:
      return "FAIL";
  }
  return "?";
}

std::string row(const Check& check) {
  std::string text = fmt::format("  {:<{}}  {:<4}  {}\n", check.name, kNameWidth, word(check.state), check.seen);
  if (!check.advice.empty()) text += fmt::format("  {:<{}}        -> {}\n", "", kNameWidth, check.advice);
  return text;
}

// Formats the differences by check: each value with the hosts that have it, and the advice once.
std::string format_differences(const std::vector<HostDiagnosis>& diagnoses) {
  struct Row {
    std::string advice;
    std::vector<std::pair<std::string, std::vector<std::string>>> hosts_of;  // each value, and the hosts that have it
  };
  std::vector<std::pair<std::string, Row>> rows;
  for (const HostDiagnosis& diagnosis : diagnoses) {
    for (const Check& check : diagnosis.differences) {
      auto known = std::ranges::find(rows, check.name, [](const auto& entry) { return entry.first; });
      if (known == rows.end()) known = rows.insert(rows.end(), {check.name, {check.advice, {}}});
      auto& values = known->second.hosts_of;
      auto value = std::ranges::find(values, check.seen, [](const auto& entry) { return entry.first; });
      if (value == values.end()) value = values.insert(values.end(), {check.seen, {}});
      value->second.push_back(diagnosis.host);
    }
  }
  if (rows.empty()) return "";
  std::string text = "hosts differ\n";
  for (const auto& [name, differing] : rows) {
    std::string seen;
    for (const auto& [value, hosts] : differing.hosts_of) {
      seen += fmt::format("{}{} on {}", seen.empty() ? "" : "; ", value, model::short_host_list(hosts));
    }
    text += row({name, CheckState::kWarn, seen, differing.advice});
  }
  return text + "\n";
}

// Returns the title and the rows of each host. Hosts with equal rows, apart from their names and addresses, share them.
std::vector<std::pair<std::string, std::string>> host_sections(const std::vector<HostDiagnosis>& diagnoses) {
  std::map<std::string, std::vector<std::string>> hosts_of;  // by rows without the host
  std::vector<std::pair<std::string, std::string>> rows_of;  // of each host: as they are, and without the host
  for (const HostDiagnosis& diagnosis : diagnoses) {
    std::string rows;
    for (const Check& check : diagnosis.checks) rows += row(check);
    const std::string plain = model::without_host(rows, diagnosis.host.substr(diagnosis.host.find('@') + 1));
    hosts_of[plain].push_back(diagnosis.host);
    rows_of.emplace_back(rows, plain);
  }
  std::vector<std::pair<std::string, std::string>> sections;
  for (std::size_t i = 0; i < diagnoses.size(); ++i) {
    const auto& [rows, plain] = rows_of[i];
    std::vector<std::string>& hosts = hosts_of[plain];
    if (!hosts.empty() && hosts.size() < model::kFewestGrouped) {
      sections.emplace_back(diagnoses[i].host, rows);
    } else if (!hosts.empty()) {
      sections.emplace_back(fmt::format("{} hosts {}", hosts.size(), model::short_host_list(hosts)), plain);
      hosts.clear();  // the section is written
    }
  }
  return sections;
}

std::string summary(const std::vector<HostDiagnosis>& diagnoses) {
  std::map<CheckState, std::vector<std::string>> by_state;
  for (const HostDiagnosis& diagnosis : diagnoses) by_state[diagnosis.state()].push_back(diagnosis.host);
  std::string text = fmt::format("{} {}: {} ok", diagnoses.size(), diagnoses.size() == 1 ? "host" : "hosts",
                                 by_state[CheckState::kOk].size());
  if (const auto& hosts = by_state[CheckState::kWarn]; !hosts.empty()) {
    text += fmt::format(", {} with warnings", hosts.size());
  }
  if (const auto& hosts = by_state[CheckState::kFail]; !hosts.empty()) {
    text += fmt::format(", {} with failures ({})", hosts.size(), model::short_host_list(hosts));
  }
  return text + "\n";
}

}  // namespace

std::string format_diagnoses(const std::vector<HostDiagnosis>& diagnoses) {
  std::string text;
  for (const auto& [title, rows] : host_sections(diagnoses)) text += title + "\n" + rows + "\n";
  return text + format_differences(diagnoses) + summary(diagnoses);
}

std::string format_waiting(std::size_t total, const std::vector<std::string>& waiting) {
  if (waiting.empty()) return "";
  return fmt::format("{} of {} hosts have answered; waiting for {}", model::format_count(total - waiting.size()),
                     model::format_count(total), model::short_host_list(waiting, model::kShortWait));
}

}  // namespace muster::cli::doctor
