#include "cli/view/host_table.h"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/gpu_table.h"
#include "cli/view/local_time.h"
#include "cli/view/log_output.h"
#include "cli/view/report.h"

namespace muster::cli::inline view {
namespace {

std::string_view agent_of(const v1::LauncherHost& host) {
  switch (host.agent()) {
    case v1::AGENT_STATE_NONE:
      return "none";
    case v1::AGENT_STATE_STARTING:
      return "starting";
    case v1::AGENT_STATE_UP:
      return "up";
    case v1::AGENT_STATE_SUSPECT:
      return "does not answer";
    case v1::AGENT_STATE_FAILED:
      return "failed";
    default:
      return "-";
  }
}

std::string count_of(int count) {
  return count == 0 ? "-" : std::to_string(count);
}

constexpr int kMostJobsShown = 5;  // per host

// Returns "  failed in job abc123, back at 2026-11-28 14:05:00 +0100: its agent ended" as a line.
std::string line_of(const v1::LeftOut& job) {
  std::string when = ", not used again by it";
  if (job.has_usable_from()) when = ", back at " + format_local_time(wall_time_of(job.usable_from()));
  return fmt::format("  failed in job {}{}{}{}\n", base::printable(job.job()), when, job.reason().empty() ? "" : ": ",
                     base::printable(job.reason()));
}

// Returns lines for GPUs, a drain's reason, jobs that leave the host out, and a problem. Empty if there are none.
std::string host_remarks(const v1::LauncherHost& host) {
  std::string text = gpu_summary(host);
  if (!text.empty()) text = fmt::format("  gpus: {}\n", text);
  if (!host.gpu_problem().empty()) text += fmt::format("  gpus: {}\n", base::printable(host.gpu_problem()));
  if (host.drained() && !host.reason().empty()) {
    text += fmt::format("  drained: {}\n", base::printable(host.reason()));
  }
  for (int i = 0; i < std::min(host.left_out_size(), kMostJobsShown); ++i) text += line_of(host.left_out(i));
  if (host.left_out_size() > kMostJobsShown) {
    text += fmt::format("  failed in {} more jobs; --json names all\n", host.left_out_size() - kMostJobsShown);
  }
  if (!host.problem().empty()) text += fmt::format("  {}\n", base::printable(host.problem()));
  return text;
}

// The hosts that need attention come first in a short table.
int urgency_of(const v1::LauncherHost& host) {
  switch (host.agent()) {
    case v1::AGENT_STATE_FAILED:
      return 0;
    case v1::AGENT_STATE_SUSPECT:
      return 1;
    default:
      break;
  }
  if (!host.problem().empty() || !host.gpu_problem().empty()) return 2;
  if (host.agent() == v1::AGENT_STATE_STARTING) return 3;
  if (host.left_out_size() > 0 || host.drained()) return 4;
  return host.jobs() > 0 ? 5 : 6;
}

}  // namespace

std::string format_hosts(const std::vector<v1::LauncherHost>& hosts, std::size_t most) {
  static constexpr std::string_view kColumns = "{:>9}  {:>5}  {:<15}  {:>6}  {:>9}  {:>5}  {}";
  const auto columns = [](const v1::LauncherHost& host) {
    return fmt::format(kColumns, slots_of(host), host.jobs(), agent_state(host), count_of(host.cores()),
                       size_of_mib(host.memory_mib()), count_of(host.gpus_size()),
                       host.containment().empty() ? "-" : base::printable(host.containment()));
  };
  return table_of_hosts(
      hosts, fmt::format(kColumns, "slots", "jobs", "agent", "cores", "memory", "gpus", "containment"), columns, most);
}

std::string table_of_hosts(const std::vector<v1::LauncherHost>& hosts, std::string_view heading,
                           const std::function<std::string(const v1::LauncherHost&)>& columns, std::size_t most) {
  if (hosts.empty()) return {};
  const auto shown = choose_rows(hosts.size(), most, [&](std::size_t row) { return urgency_of(hosts[row]); });
  std::size_t width = 4;
  for (const std::size_t row : shown) width = std::max(width, base::printable(hosts[row].name()).size());
  std::string table = fmt::format("{:<{}}  {}\n", "host", width, heading);
  for (const std::size_t row : shown) {
    const v1::LauncherHost& host = hosts[row];
    table += fmt::format("{:<{}}  {}\n", base::printable(host.name()), width, columns(host));
    table += host_remarks(host);
  }
  const auto state_of = [&](std::size_t row) {
    const std::string state = agent_state(hosts[row]);
    return state.starts_with("none") ? "without an agent" + state.substr(4) : state;
  };
  return table + describe_rest("hosts", hosts.size(), shown, state_of);
}

std::string size_of_mib(std::int64_t mebibytes) {
  if (mebibytes == 0) return "-";
  return mebibytes < 10 * 1024 ? fmt::format("{} MiB", mebibytes) : fmt::format("{} GiB", mebibytes / 1024);
}

std::string agent_state(const v1::LauncherHost& host) {
  return host.drained() ? fmt::format("{}, drained", agent_of(host)) : std::string(agent_of(host));
}

std::string slots_of(const v1::LauncherHost& host) {
  return fmt::format("{}/{}", host.used_slots(), host.slots());
}

}  // namespace muster::cli::view
