#include "cli/view/report.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/strings.h"
#include "cli/help/color.h"
#include "model/failure_hint.h"
#include "model/host_group.h"
#include "model/spawn_advice.h"
#include "model/traceback.h"
#include "proto/convert.h"

namespace muster::cli::inline view {
namespace {

using launcherd::JobOutcome;
using launcherd::StopCause;

// Returns why the job ended, for the last line.
std::string describe_cause(const JobOutcome& outcome) {
  switch (outcome.cause) {
    case StopCause::kHangup:
      return "stopped by a hangup (SIGHUP)";
    case StopCause::kInterrupt:
      return "stopped by Ctrl-C (SIGINT)";
    case StopCause::kTerminate:
      return "stopped by SIGTERM";
    case StopCause::kTimeout:
      return "stopped at its --timeout";
    case StopCause::kStdoutClosed:
      return "stopped because nobody reads its output any more";
    case StopCause::kOutputFailed:
      return "stopped because its output could not be written";
    case StopCause::kHostFailed:
      return outcome.ends.empty() ? "not started" : "stopped because a host was lost";
    case StopCause::kRefused:
      return "not started";
    case StopCause::kResize:
      return "stopped to change its size";
    case StopCause::kHung:
      if (outcome.root < 0) return "stopped because it hung (--on-hang kill)";
      break;
    case StopCause::kNone:
    case StopCause::kPolicy:
      break;
  }
  if (outcome.root < 0) return "ended with exit code 0";
  const model::RankEnd& root = outcome.ends[static_cast<std::size_t>(outcome.root)];
  return fmt::format("failed; exit code {} is that of rank {} on {}", outcome.exit_code, root.rank, root.host);
}

// False if the job may have ended before all its output was shown.
bool is_output_whole(const JobOutcome& outcome) {
  return outcome.output_failure.empty() && (outcome.cause == StopCause::kNone || outcome.cause == StopCause::kPolicy);
}

void add_stderr_tail(const JobOutcome& outcome, bool is_shown, std::vector<std::string>* lines) {
  const std::string_view tail = base::trim(outcome.stderr_tail);
  if (tail.empty()) return;
  const std::string_view exception = model::exception_line(tail);
  if (is_shown && !exception.empty()) {
    lines->push_back(base::printable(exception) + " (its traceback is above)");
    return;
  }
  lines->push_back("the last lines of its stderr:");
  for (const std::string_view line : base::split(tail, '\n')) lines->push_back("  | " + base::printable(line));
}

std::vector<model::RankEnd> ends_of(const JobOutcome& outcome, const std::vector<int>& ranks) {
  std::vector<model::RankEnd> ends;
  std::ranges::copy_if(outcome.ends, std::back_inserter(ends),
                       [&](const model::RankEnd& end) { return std::ranges::binary_search(ranks, end.rank); });
  return ends;
}

void add_hints(const JobOutcome& outcome, std::vector<std::string>* lines) {
  const model::RankEnd& root = outcome.ends[static_cast<std::size_t>(outcome.root)];
  const auto alike = ends_of(outcome, outcome.alike_ranks);
  for (std::string& hint : model::failure_hints(root, alike, outcome.stderr_tail)) lines->push_back(std::move(hint));
}

// Returns "ranks 0-7 failed alike". Empty if only the root cause's rank failed so.
std::string describe_alike(const JobOutcome& outcome) {
  if (outcome.alike_ranks.empty()) return "";
  std::vector<int> alike = outcome.alike_ranks;
  alike.push_back(outcome.ends[static_cast<std::size_t>(outcome.root)].rank);
  return fmt::format("ranks {} failed alike", model::short_rank_list(alike));
}

// Adds the ends of the other ranks. Those that failed like the root cause are one line.
void add_other_ends(const JobOutcome& outcome, std::vector<std::string>* lines) {
  const int root = outcome.ends[static_cast<std::size_t>(outcome.root)].rank;
  std::vector<model::RankEnd> rest = outcome.ends;
  std::erase_if(rest,
                [&](const model::RankEnd& end) { return std::ranges::binary_search(outcome.alike_ranks, end.rank); });
  const auto at = std::ranges::find(rest, root, &model::RankEnd::rank);
  const std::string others = model::describe_consequences(rest, static_cast<int>(at - rest.begin()));
  if (const std::string alike = describe_alike(outcome); !alike.empty()) lines->push_back(alike);
  if (!others.empty()) lines->push_back("then " + others);
}

void add_host_texts(const std::vector<launcherd::HostFailure>& failures, std::vector<std::string>* lines) {
  std::vector<model::HostText> texts;
  for (const launcherd::HostFailure& failure : failures) texts.push_back({failure.host, failure.message});
  constexpr std::size_t kMostLines = 20;
  for (std::string& line : model::group_host_texts(texts, kMostLines)) lines->push_back(std::move(line));
}

// Adds advice on MPI_Comm_spawn. MPICH over UCX, as Debian has it, refuses spawns without asking any launcher, even
// under mpiexec. In all other cases the agent learns of the refusal.
void add_spawn_advice(const JobOutcome& outcome, std::vector<std::string>* lines) {
  const std::string& tail = outcome.stderr_tail;  // MPICH's own message; with Open MPI the agent has given the reason
  const bool is_of_mpich =
      tail.find("MPI_Comm_spawn(") != std::string::npos || tail.find("MPI_Comm_spawn_multiple(") != std::string::npos;
  if (!is_of_mpich || std::ranges::any_of(outcome.ends, &model::RankEnd::spawn_refused)) return;
  lines->push_back(fmt::format("its MPI_Comm_spawn failed, {}", model::kSpawnAdvice));
}

}  // namespace

std::string plural(int count, const char* one, const char* many) {
  return fmt::format("{} {}", count, count == 1 ? one : many);
}

std::string format_duration(base::Duration duration) {
  const double seconds = std::chrono::duration<double>(duration).count();
  if (seconds < 1) return fmt::format("{:.2f} s", seconds);
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const long whole = static_cast<long>(seconds + 0.5);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

std::string mark_rank(std::string_view root_cause, bool has_color) {
  const std::size_t end = std::min(root_cause.find(" (pid "), root_cause.find(": "));
  if (end == std::string_view::npos) return std::string(root_cause);
  return Paint(has_color).error(root_cause.substr(0, end)) + std::string(root_cause.substr(end));
}

std::string format_root_cause(const model::RankEnd& root, std::string_view role) {
  const std::string what = model::describe(root);
  const std::string who =
      fmt::format("rank {}{} on {}", root.rank, role.empty() ? "" : fmt::format(" ({})", role), root.host);
  if (root.pid == 0) return fmt::format("{}: {}", who, what);
  if (root.pid_inside != 0 && root.pid_inside != root.pid) {
    return fmt::format("{} (pid {}, {} in its namespace): {}", who, root.pid, root.pid_inside, what);
  }
  return fmt::format("{} (pid {}): {}", who, root.pid, what);
}

std::vector<std::string> format_outcome(const JobOutcome& outcome, bool is_terminal, bool has_shown_stderr) {
  std::vector<std::string> lines;
  if (outcome.root >= 0) {
    add_stderr_tail(outcome, has_shown_stderr && is_output_whole(outcome), &lines);
    add_spawn_advice(outcome, &lines);
    add_hints(outcome, &lines);
    add_other_ends(outcome, &lines);
  }
  add_host_texts(outcome.host_failures, &lines);
  if (!outcome.output_failure.empty()) lines.push_back(outcome.output_failure);
  if (outcome.strays_killed > 0) {
    lines.push_back(fmt::format("{} outlived {} and {} ended:", plural(outcome.strays_killed, "process", "processes"),
                                outcome.strays_killed == 1 ? "its rank" : "their ranks",
                                outcome.strays_killed == 1 ? "was" : "were"));
    for (const std::string& stray : outcome.stray_lines) lines.push_back("  " + stray);
  }
  add_host_texts(outcome.unclean, &lines);
  const bool is_plain_success = outcome.exit_code == 0 && lines.empty();
  if (is_plain_success && !is_terminal) return {};
  lines.push_back(
      fmt::format("{} on {}, {}: {}{}{}", plural(outcome.ranks, "rank", "ranks"),
                  plural(outcome.hosts, "host", "hosts"), format_duration(outcome.elapsed), describe_cause(outcome),
                  outcome.restarts > 0 ? " after " + plural(outcome.restarts, "restart", "restarts") : "",
                  outcome.strays_killed > 0 ? fmt::format(", {} leftover {} killed", outcome.strays_killed,
                                                          outcome.strays_killed == 1 ? "process" : "processes")
                                            : ""));
  return lines;
}

std::vector<std::string> format_report(const v1::ExitReport& report) {
  JobOutcome outcome;
  for (const v1::RankEnd& end : report.ends()) {
    if (end.rank() == report.root_cause_rank()) outcome.root = static_cast<int>(outcome.ends.size());
    outcome.ends.push_back(proto::rank_end_of(end));
  }
  if (outcome.root < 0) return {};
  const std::vector<std::string> tail(report.stderr_tail().begin(), report.stderr_tail().end());
  outcome.stderr_tail = base::join(tail, "\n");
  outcome.alike_ranks = {report.alike_ranks().begin(), report.alike_ranks().end()};
  std::vector<std::string> lines{format_root_cause(outcome.ends[static_cast<std::size_t>(outcome.root)])};
  const std::string_view exception = model::exception_line(outcome.stderr_tail);
  if (!exception.empty()) lines.push_back(base::printable(exception));
  add_hints(outcome, &lines);
  if (const std::string alike = describe_alike(outcome); !alike.empty()) lines.push_back(alike);
  return lines;
}

}  // namespace muster::cli::view
