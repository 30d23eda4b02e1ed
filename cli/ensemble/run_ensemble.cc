// This file makes a request of each job, then starts a launcherd in this process and runs all requests on it.
// Read from the end: run_ensemble(), make_requests(), find_hosts(), run_jobs_of().
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "base/build_id.h"
#include "base/file.h"
#include "base/loop.h"
#include "base/strings.h"
#include "cli/ensemble/ensemble.h"
#include "cli/ensemble/ensemble_file.h"
#include "cli/ensemble/ensemble_folder.h"
#include "cli/ensemble/ensemble_run.h"
#include "cli/help/base_names.h"
#include "cli/hosts/console.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/color_option.h"
#include "cli/options/exit_codes.h"
#include "cli/run/host_health.h"
#include "cli/verbs/submission.h"
#include "cli/verbs/submit.h"
#include "cli/view/bootstrap_options.h"
#include "cli/view/job_table.h"
#include "cli/view/launcher_process.h"
#include "launcherd/daemon/daemon.h"
#include "launcherd/output/terminal.h"
#include "proto/message_json.h"

namespace muster::cli::inline ensemble {
namespace {

using Requests = std::vector<std::pair<std::string, v1::SubmitRequest>>;

constexpr int kFailed = 1;
// Threads that an ensemble needs: those of gRPC, of the store and of the jobs' run, and a reserve.
constexpr int kEnsembleThreads = 30;
constexpr std::size_t kLargestFile = std::size_t{16} << 20;
// No other launcherd follows this one. So agents wait for its return only as long as hvdrun's agents wait for hvdrun.
constexpr std::chrono::seconds kAgentLease{15};

Result<Ensemble> read_ensemble(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(const std::string content, base::read_file(path, kLargestFile));
  return parse_ensemble(content, path);
}

// Makes the requests for launcherd. A mistake in a job's options names the job's place in the file.
Result<Requests> make_requests(const Ensemble& ensemble, const base::Environment& environment,
                               const std::string& directory, base::WallTime now) {
  Requests requests;
  for (const EnsembleJob& job : ensemble.jobs) {
    ParsedSubmit parsed = parse_submit(job.arguments, environment, {.build_id = base::build_id()}, now);
    if (parsed.exit_code) {
      return base::invalid_argument("{}: job {}: {}", job.where, job.name, base::trim(parsed.text));
    }
    JobRequest& of_job = parsed.options.request;
    of_job.job.environment.python_folders = python_folders();
    auto request = make_submission(of_job, parsed.options.reach.contain, environment, directory);
    if (!request.ok()) return request.status().with_context(fmt::format("{}: job {}", job.where, job.name));
    // Use a short lease: when this launcherd is gone, no other launcherd resumes its jobs or waits for a lost host.
    request->mutable_spec()->mutable_lease()->set_seconds(kAgentLease.count());
    request->MergeFrom(parsed.own_request);
    requests.emplace_back(job.name, *std::move(request));
  }
  return requests;
}

// Returns the hosts. Those without a number of slots get -N slots.
Result<std::vector<model::HostSpec>> find_hosts(ParsedEnsemble& parsed, const base::Environment& environment,
                                                const std::string& directory) {
  JobRequest& request = parsed.options.request;
  OutputPlan& output = parsed.options.output;
  const int slots = request.job.placement.ranks_per_node;
  const CheckHosts check = [&](const std::vector<model::HostSpec>& hosts) {
    return check_health(request.job, parsed.options.reach, hosts, environment, output.verbose);
  };
  MUSTER_ASSIGN_OR_RETURN(const HostSource source, cli::find_hosts(request, environment, directory));
  MUSTER_RETURN_IF_ERROR(leave_out_hosts(request, output.notes, check));
  std::vector<model::HostSpec> hosts = request.job.placement.hosts;
  if (hosts.empty()) {
    const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    hosts.push_back({.name = "localhost", .slots = processors});
  }
  if (slots == 0) {
    set_default_slots(parsed.options.reach, source, hosts);
    return hosts;
  }
  std::vector<model::HostSpec> distinct;
  // A scheduler's list names a host once for each of its slots, so keep one entry.
  for (model::HostSpec& host : hosts) {
    const auto same = std::ranges::find(distinct, host.name, &model::HostSpec::name);
    if (!host.slots && same != distinct.end()) continue;
    if (!host.slots) host.slots = slots;
    distinct.push_back(std::move(host));
  }
  return distinct;
}

launcherd::DaemonOptions daemon_options(const ParsedEnsemble& parsed, std::vector<model::HostSpec> hosts,
                                        const std::string& folder, std::string agent_path,
                                        const base::Environment& environment, launcherd::NoticeWriter& notices) {
  launcherd::DaemonOptions options;
  options.hosts = std::move(hosts);
  options.socket = folder + "/launcherd.sock";
  options.state_directory = folder + "/state";
  options.verbose = parsed.options.output.verbose;
  options.bootstrap = bootstrap_options(parsed.options.reach, std::move(agent_path), notices, options.verbose);
  options.agent_lease = kAgentLease;
  options.version = MUSTER_VERSION;
  options.build_id = base::build_id();
  options.session_root = environment.get("MUSTER_TMPDIR").value_or("");
  options.on_line = [&notices](const std::string& line) { notices.line(line); };
  return options;
}

std::string end_line(const EnsembleEnd& end) {
  std::string line = fmt::format("{} {} with exit code {}", end.name, end.job.exit_code() == 0 ? "ended" : "failed",
                                 end.job.exit_code());
  if (end.job.exit_code() != 0 && !end.job.reason().empty()) {
    line += ": " + base::printable(end.job.reason());
  }
  if (!end.output_problem.empty()) line += "; its output is incomplete: " + base::printable(end.output_problem);
  return line;
}

// Counts the results that the run's thread reports.
struct Tally {
  std::size_t failed = 0;
  base::Status outcome;
  bool is_stdout_closed = false;
};

int exit_code_of(const Tally& tally, int signo) {
  if (signo != 0) return model::signal_exit_code(signo);
  if (tally.is_stdout_closed) return kStdoutClosed;
  if (!tally.outcome.ok()) return tally.outcome.code() == base::Code::kInvalidArgument ? kUsageError : kMusterFailed;
  return tally.failed == 0 ? 0 : kFailed;
}

// `when_closed` is called when stdout was closed by its reader.
EnsembleRun::Events make_events(const ParsedEnsemble& parsed, launcherd::Terminal& out,
                                launcherd::NoticeWriter& notices, Tally& tally, std::function<void()> when_closed) {
  EnsembleRun::Events events;
  events.on_end = [&parsed, &out, &notices, &tally, when_closed = std::move(when_closed)](const EnsembleEnd& end) {
    if (end.job.exit_code() != 0 || !end.output_problem.empty()) ++tally.failed;
    if (parsed.json) {
      if (out.write_notice(proto::message_line(end.job)).ok()) return;
      tally.is_stdout_closed = true;
      when_closed();
    } else {
      notices.line(end_line(end));
    }
  };
  events.on_progress = [&notices, &tally](std::size_t ended, std::size_t submitted) {
    notices.status(
        ended == submitted ? "" : fmt::format("{} of {} jobs have ended, {} failed", ended, submitted, tally.failed));
  };
  return events;
}

int run_jobs_of(ParsedEnsemble parsed, Requests requests, const std::string& output,
                const base::Environment& environment, const Console& console) {
  auto hosts = find_hosts(parsed, environment, logical_working_directory(environment));
  if (!hosts.ok())
    return console.fail("muster ensemble", placement_exit_code(hosts.status()), hosts.status().message());
  base::Loop loop;
  auto signals = prepare_launcher({SIGINT, SIGTERM, SIGHUP}, kEnsembleThreads);
  if (!signals.ok()) return console.fail("muster ensemble", kMusterFailed, signals.status().message());
  auto agent_path = find_agent(environment);
  if (!agent_path.ok()) return console.fail("muster ensemble", kMusterFailed, agent_path.status().message());
  auto folder = EnsembleFolder::make(environment);
  if (!folder.ok()) return console.fail("muster ensemble", kMusterFailed, folder.status().message());

  const base::SystemClock clock;
  launcherd::Terminals terminals(STDOUT_FILENO, STDERR_FILENO);
  launcherd::NoticeWriter notices(terminals.err(), "muster ensemble: ");
  for (const std::string& note : parsed.options.output.notes) notices.line(note);
  if (const auto why = settle_bootstrap(parsed.options.reach.bootstrap, environment); !why.ok()) {
    return console.fail("muster ensemble", kUsageError, why.status().message());
  }
  launcherd::DaemonOptions options =
      daemon_options(parsed, *std::move(hosts), (*folder)->path(), *std::move(agent_path), environment, notices);
  Tally tally;
  std::function<void()> when_closed;
  EnsembleRun run({.path = options.socket}, output, parsed.stops_at_failure,
                  make_events(parsed, *terminals.out(), notices, tally, [&when_closed] { when_closed(); }));
  options.on_job_ended = [&run](const std::string& id) { run.ended(id); };
  int signo = 0;
  {
    auto daemon = launcherd::Daemon::open(loop, clock, std::move(options));
    if (!daemon.ok()) return console.fail("muster ensemble", kMusterFailed, daemon.status().message());
    notices.line(
        fmt::format("{} {}; {}", requests.size(), requests.size() == 1 ? "job" : "jobs", (*daemon)->description()));
    signals->watch(loop, [&](int which) {
      if (signo == 0) notices.line("stopping all jobs; another signal ends them at once");
      signo = which;
      run.cancel();
      (*daemon)->leave([&loop] { loop.stop(); });
    });
    when_closed = [&] {
      run.cancel();
      loop.post([&] {
        if (signo == 0) (*daemon)->leave([&loop] { loop.stop(); });
      });
    };
    std::thread thread([&] {
      tally.outcome = run.run_blocking(requests);
      loop.post([&] {
        if (signo == 0 && !tally.is_stdout_closed) (*daemon)->leave([&loop] { loop.stop(); });
      });
    });
    loop.run();
    run.cancel();
    if (signo != 0) terminals.out()->cancel();  // a reader that has stopped must not delay the end
    thread.join();
  }
  notices.status("");
  if (signo == 0 && !tally.outcome.ok() && !tally.is_stdout_closed) notices.line(tally.outcome.message());
  if (!parsed.json && signo == 0 && tally.outcome.ok()) {
    notices.line(
        fmt::format("{} of {} jobs succeeded; output in {}", requests.size() - tally.failed, requests.size(), output));
  }
  if (!notices.flush_blocking(clock.now() + kFlushTimeout)) terminals.cancel();
  return exit_code_of(tally, signo);
}

int list_jobs(const Ensemble& ensemble) {
  std::string text;
  for (const EnsembleJob& job : ensemble.jobs) {
    text += "muster submit";
    for (const std::string& word : job.arguments) text += " " + base::shell_quote(word);
    text += "\n";
  }
  return print_answer("muster ensemble", text);
}

}  // namespace

int run_ensemble(const std::string&, const std::vector<std::string>& arguments) {
  return run_program("muster ensemble", [&](const base::Environment& environment) {
    const Console console(typed_color(arguments, *ensemble_doc().table), environment);
    const ParseContext context{.build_id = base::build_id(), .look = console.look()};
    ParsedEnsemble parsed = parse_ensemble_line(arguments, environment, context);
    if (parsed.exit_code) return console.reply("muster ensemble", {*parsed.exit_code, parsed.text, parsed.is_help});
    const std::string directory = logical_working_directory(environment);
    const auto ensemble = read_ensemble(absolute_path(parsed.file, directory));
    if (!ensemble.ok()) return console.fail("muster ensemble", kUsageError, ensemble.status().message());
    auto requests = make_requests(*ensemble, environment, directory, base::SystemClock().wall());
    if (!requests.ok()) return console.fail("muster ensemble", kUsageError, requests.status().message());
    if (parsed.dry_run) return list_jobs(*ensemble);
    const std::string stem = std::filesystem::path(parsed.file).stem().string();
    const std::string output = !parsed.output.empty()      ? parsed.output
                               : !ensemble->output.empty() ? ensemble->output
                                                           : stem;
    return run_jobs_of(std::move(parsed), *std::move(requests), absolute_path(output, directory), environment, console);
  });
}

}  // namespace muster::cli::ensemble
