#include "cli/view/top_view.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/strings.h"
#include "cli/view/job_table.h"
#include "cli/view/load_table.h"
#include "cli/view/report.h"

namespace muster::cli::inline view {
namespace {

int jobs_in(const TopSample& sample, v1::JobState state) {
  return static_cast<int>(std::ranges::count(sample.jobs, state, &v1::Job::state));
}

std::string summary(const TopSample& sample) {
  const int waiting = jobs_in(sample, v1::JOB_STATE_QUEUED);
  const int running = static_cast<int>(sample.jobs.size()) - waiting;
  std::string text = fmt::format("{} running, {} waiting", plural(running, "job", "jobs"), waiting);
  if (sample.launcher.empty()) return text + "; no launcherd\n";
  int slots = 0;
  int used = 0;
  for (const v1::LauncherHost& host : sample.hosts) {
    slots += host.slots();
    used += host.used_slots();
  }
  return fmt::format("{}; {} of {} used on {}; launcherd at {}\n", text, used, plural(slots, "slot", "slots"),
                     plural(static_cast<int>(sample.hosts.size()), "host", "hosts"), sample.launcher);
}

// Returns why jobs wait, a line for each job.
std::string reasons(const TopSample& sample) {
  std::string text;
  for (const v1::Job& job : sample.jobs) {
    if (job.state() != v1::JOB_STATE_QUEUED || job.reason().empty()) continue;
    text += fmt::format("{} waits: {}\n", base::printable(job.id()), base::printable(job.reason()));
  }
  return text;
}

// Returns how jobs have changed, a line for each job with more than one generation.
std::string changes(const TopSample& sample) {
  std::string text;
  for (const v1::Job& job : sample.jobs) {
    if (job.last_change().empty()) continue;
    text += fmt::format("{} {}\n", base::printable(job.id()), base::printable(job.last_change()));
  }
  return text;
}

}  // namespace

std::string format_top(const TopSample& sample) {
  std::string text = summary(sample);
  if (!sample.problem.empty()) text += base::printable(sample.problem) + "\n";
  for (const std::string& part :
       {format_loads(sample.hosts), format_busy_jobs(sample.jobs, sample.at), reasons(sample), changes(sample)}) {
    if (!part.empty()) text += "\n" + part;
  }
  return text;
}

}  // namespace muster::cli::view
