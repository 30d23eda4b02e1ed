#include "cli/doctor/run_cleanup.h"

#include "base/build_id.h"
#include "base/ids.h"
#include "base/strings.h"
#include "base/thread.h"
#include "cli/doctor/cleanup.h"
#include "cli/doctor/cleanup_view.h"
#include "cli/doctor/host_query.h"
#include "cli/hosts/console.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/standard_streams.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "cli/view/short_rows.h"
#include "launcherd/cleanup/host_cleanups.h"
#include "proto/message_json.h"

namespace muster::cli::inline doctor {
namespace {

using Reports = std::vector<v1::CleanupReport>;

base::Result<Reports> ask_hosts(const ParsedCleanup& parsed, const launcherd::CleanupPlan& plan,
                                const base::Environment& environment) {
  MUSTER_ASSIGN_OR_RETURN(const auto results, ask_hosts_blocking("muster cleanup", parsed.options, plan.hosts,
                                                                 launcherd::cleanup_arguments(plan), environment));
  return launcherd::cleanup_reports(plan, results);
}

int show(const Reports& reports, const ParsedCleanup& parsed) {
  std::string text;
  if (parsed.json) {
    for (const v1::CleanupReport& report : reports) text += proto::message_line(report);
  } else {
    text = format_cleanup(reports, parsed.job, rows_on_screen(false));
  }
  if (const int failed = print_answer("muster cleanup", text); failed != 0) return failed;
  return cleanup_exit_code(reports, parsed.job);
}

int clean(ParsedCleanup parsed, const base::Environment& environment, const Console& console) {
  auto hosts = hosts_to_ask(parsed.options.request, environment);
  if (!hosts.ok()) return console.fail("muster cleanup", kUsageError, hosts.status().message());
  launcherd::CleanupPlan plan{.hosts = std::move(*hosts),
                              .job = parsed.job,
                              .dry_run = parsed.dry_run,
                              .session_root = std::string(environment.get("MUSTER_TMPDIR").value_or(""))};
  // Ask all hosts before anything is ended, because the beginning of an id must name one job on all of them together.
  if (!parsed.job.empty() && !base::JobId::parse(parsed.job).ok()) {
    plan.dry_run = true;
    const auto reports = ask_hosts(parsed, plan, environment);
    if (!reports.ok()) return console.fail("muster cleanup", kMusterFailed, reports.status().message());
    const std::set<std::string> jobs = jobs_of(*reports);
    if (jobs.size() > 1) {
      return console.fail(
          "muster cleanup", kUsageError,
          fmt::format("which job? There are {}", base::join(std::vector<std::string>(jobs.begin(), jobs.end()), ", ")));
    }
    if (jobs.empty() || parsed.dry_run) return show(*reports, parsed);
    plan.job = *jobs.begin();
    if (!base::JobId::parse(plan.job).ok())
      return console.fail("muster cleanup", kUsageError, "a host names a job that is none");
    plan.dry_run = false;
  }
  const auto reports = ask_hosts(parsed, plan, environment);
  if (!reports.ok()) return console.fail("muster cleanup", kMusterFailed, reports.status().message());
  return show(*reports, parsed);
}

}  // namespace

int run_cleanup(const std::vector<std::string>& arguments) {
  return run_program("muster cleanup", [&](const base::Environment& environment) {
    const Console console(typed_color(arguments, cleanup_flags()), environment);
    const ParseContext context{.build_id = base::build_id(), .look = console.look()};
    ParsedCleanup parsed = parse_cleanup(arguments, environment, context);
    if (parsed.exit_code) return console.reply("muster cleanup", {*parsed.exit_code, parsed.text, parsed.is_help});
    return clean(std::move(parsed), environment, console);
  });
}

}  // namespace muster::cli::doctor
