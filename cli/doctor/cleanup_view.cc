// This file counts the strays that hosts report, and formats them as a table, remarks and a summary.
// Read format_cleanup() and cleanup_exit_code() at the end first, then count().
#include "cli/doctor/cleanup_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/text_rows.h"
#include "model/exit_code.h"
#include "model/host_group.h"

namespace muster::cli::inline doctor {
namespace {

using CleanupRow = std::vector<std::string>;

std::string_view word(v1::RemainsKind kind) {
  switch (kind) {
    case v1::REMAINS_KIND_PROCESS:
      return "process";
    case v1::REMAINS_KIND_SESSION:
      return "session";
    case v1::REMAINS_KIND_SOCKET:
      return "socket";
    case v1::REMAINS_KIND_CGROUP:
      return "cgroup";
    case v1::REMAINS_KIND_SHARED_MEMORY:
      return "memory";
    default:
      return "?";
  }
}

std::string_view word(v1::RemainsState state) {
  switch (state) {
    case v1::REMAINS_STATE_FOUND:
      return "found";
    case v1::REMAINS_STATE_GONE:
      return "gone";
    case v1::REMAINS_STATE_LEFT:
      return "LEFT";
    default:
      return "?";
  }
}

std::string format_age(long seconds) {
  if (seconds < 120) return fmt::format("{} s", seconds);
  if (seconds < 2 * 3600) return fmt::format("{} min", seconds / 60);
  if (seconds < 48 * 3600) return fmt::format("{} h", seconds / 3600);
  return fmt::format("{} d", seconds / 86400);
}

CleanupRow row_of(const std::string& host, const v1::Remains& remains) {
  return {host,
          base::printable(remains.job_id()),
          std::string(word(remains.kind())),
          remains.pid() > 0 ? std::to_string(remains.pid()) : "",
          base::printable(remains.name()),
          format_age(remains.age_s()),
          base::printable(remains.found_by()),
          std::string(word(remains.state()))};
}

struct Counts {
  int found = 0;
  int gone = 0;
  int left = 0;
  int waiting = 0;  // jobs
  int unknown = 0;  // number of hosts that could not be asked
  int problems = 0;
  std::set<std::string> alive;
};

Counts count(const std::vector<v1::CleanupReport>& reports) {
  Counts counts;
  for (const v1::CleanupReport& report : reports) {
    for (const v1::Remains& remains : report.remains()) {
      if (remains.state() == v1::REMAINS_STATE_GONE) {
        ++counts.gone;
      } else if (remains.state() == v1::REMAINS_STATE_FOUND) {
        ++counts.found;
      } else {
        ++counts.left;
      }
    }
    counts.left += report.left_out_not_gone();
    counts.gone += report.left_out() - report.left_out_not_gone();
    counts.waiting += report.waiting_jobs_size();
    counts.problems += report.problems_size();
    counts.unknown += report.unreachable().empty() ? 0 : 1;
    counts.alive.insert(report.alive_jobs().begin(), report.alive_jobs().end());
  }
  return counts;
}

std::string summary(const std::vector<v1::CleanupReport>& reports, const Counts& counts) {
  std::string text = fmt::format("{} {}: ", reports.size(), reports.size() == 1 ? "host" : "hosts");
  std::vector<std::string> parts;
  if (counts.found > 0) parts.push_back(fmt::format("{} found, not touched", counts.found));
  if (counts.gone > 0) parts.push_back(fmt::format("{} ended and gone", counts.gone));
  if (counts.left > 0) parts.push_back(fmt::format("{} LEFT", counts.left));
  if (parts.empty()) parts.emplace_back("nothing found");
  if (counts.waiting > 0) parts.push_back(fmt::format("{} not over yet", counts.waiting));
  if (counts.unknown > 0) parts.push_back(fmt::format("{} unknown", counts.unknown));
  if (!counts.alive.empty()) parts.push_back(fmt::format("{} living and not touched", counts.alive.size()));
  return text + base::join(parts, ", ") + "\n";
}

// Adds texts about unreachable hosts, problems, and jobs that were not touched, because the table omits them.
void add_remarks(const v1::CleanupReport& report, const std::string& job, std::vector<model::HostText>& remarks) {
  const std::string host = base::printable(report.host());
  const auto add = [&](const std::string& text) { remarks.push_back({host, fmt::format("{}: {}", host, text)}); };
  if (!report.unreachable().empty()) {
    add(fmt::format("unknown, not clean: {}", base::printable(report.unreachable())));
  }
  for (const v1::Remains& remains : report.remains()) {
    if (remains.problem().empty()) continue;
    const std::string what =
        remains.pid() > 0 ? fmt::format("pid {} ({})", remains.pid(), remains.name()) : remains.name();
    add(fmt::format("{}: {}", base::printable(what), base::printable(remains.problem())));
  }
  for (const v1::WaitingJob& waiting : report.waiting_jobs()) {
    add(fmt::format("job {} has no agent any more, but its lease runs for another {} s: try again then",
                    base::printable(waiting.job_id()), (waiting.lease_left_ms() + 999) / 1000));
  }
  for (const std::string& problem : report.problems()) {
    add(base::printable(problem));
  }
  if (report.left_out() > 0) add(fmt::format("{} more are not listed", report.left_out()));
  for (const std::string& alive : report.alive_jobs()) {
    if (job.empty()) break;
    add(fmt::format("job {} lives: end it with its hvdrun (Ctrl-C there, or kill it)", base::printable(alive)));
  }
}

// A short table shows strays that are left first, then those that were only found.
int urgency_of(const v1::Remains& remains) {
  switch (remains.state()) {
    case v1::REMAINS_STATE_GONE:
      return 2;
    case v1::REMAINS_STATE_FOUND:
      return 1;
    default:
      return 0;
  }
}

std::string format_remains(const std::vector<v1::CleanupReport>& reports, std::size_t most) {
  struct Stray {
    const std::string* host;
    const v1::Remains* remains;
  };
  std::vector<Stray> strays;
  for (const v1::CleanupReport& report : reports) {
    for (const v1::Remains& remains : report.remains()) strays.push_back({&report.host(), &remains});
  }
  if (strays.empty()) return "";
  const auto shown =
      choose_rows(strays.size(), most, [&](std::size_t row) { return urgency_of(*strays[row].remains); });
  std::vector<CleanupRow> rows{{"HOST", "JOB", "WHAT", "PID", "NAME", "AGE", "FOUND BY", "STATE"}};
  for (const std::size_t row : shown) {
    rows.push_back(row_of(base::printable(*strays[row].host), *strays[row].remains));
  }
  const auto state_of = [&](std::size_t row) { return std::string(word(strays[row].remains->state())); };
  return format_rows(rows) + describe_rest("strays", strays.size(), shown, state_of, kPipeListsThem);
}

}  // namespace

std::string format_cleanup(const std::vector<v1::CleanupReport>& reports, const std::string& job, std::size_t most) {
  std::vector<model::HostText> remarks;
  for (const v1::CleanupReport& report : reports) add_remarks(report, job, remarks);
  std::string text = format_remains(reports, most);
  for (const std::string& line : model::group_host_texts(remarks)) text += line + "\n";
  return text + summary(reports, count(reports));
}

int cleanup_exit_code(const std::vector<v1::CleanupReport>& reports, const std::string& job) {
  const Counts counts = count(reports);
  if (counts.unknown == static_cast<int>(reports.size())) return model::kMusterFailed;
  const bool lives = !job.empty() && !counts.alive.empty();
  const bool is_left = counts.found + counts.left + counts.waiting + counts.unknown + counts.problems > 0;
  return is_left || lives ? 1 : 0;
}

std::set<std::string> jobs_of(const std::vector<v1::CleanupReport>& reports) {
  std::set<std::string> jobs;
  for (const v1::CleanupReport& report : reports) {
    for (const v1::Remains& remains : report.remains()) jobs.insert(remains.job_id());
    for (const v1::WaitingJob& waiting : report.waiting_jobs()) jobs.insert(waiting.job_id());
    jobs.insert(report.alive_jobs().begin(), report.alive_jobs().end());
  }
  return jobs;
}

}  // namespace muster::cli::doctor
