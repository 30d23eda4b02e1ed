// This file builds the parts of a foreground launcher, connects them and runs them: run_job().
// Read from the end: run_command(), run_job() in order, then on_signal() and run_self_test().
#include "cli/run/run_job.h"

#include <signal.h>
#include <unistd.h>

#include <memory>
#include <system_error>

#include "base/build_id.h"
#include "base/descriptor_limit.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/print.h"
#include "base/strings.h"
#include "base/thread.h"
#include "cli/doctor/probe_hosts.h"
#include "cli/hosts/dry_run.h"
#include "cli/hosts/end_bound.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "cli/run/foreground_api.h"
#include "cli/run/host_health.h"
#include "cli/run/run_remote.h"
#include "cli/view/bootstrap_options.h"
#include "cli/view/event_file.h"
#include "cli/view/job_view.h"
#include "cli/view/outlets.h"
#include "cli/view/report.h"
#include "cli/view/signals.h"
#include "cli/view/stdin_reader.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/hosts/time_limit.h"
#include "launcherd/output/rank_folder.h"
#include "launcherd/run/restarting_job.h"
#include "launcherd/start/make_bootstrap.h"
#include "model/job_placement.h"

namespace muster::cli::inline run {
namespace {

using launcherd::StopCause;

// Threads that a job needs: those of gRPC, of output and of bootstrap, and a reserve.
constexpr int kJobThreads = 20;
// Limit for closing agents and connections after the job. An idle machine needs some milliseconds.
constexpr std::chrono::seconds kEndTime{10};

StopCause cause_of(int signo) {
  switch (signo) {
    case SIGHUP:
      return StopCause::kHangup;
    case SIGTERM:
      return StopCause::kTerminate;
    default:
      return StopCause::kInterrupt;
  }
}

void tell_size(launcherd::RestartingJob& runner) {
  const TerminalSize size = terminal_size();
  runner.resize_terminal(size.rows, size.columns);
}

// Don't stop if a SIGCONT is pending: SIGSTOP would discard it, and nothing would wake this process again.
void stop_ourselves() {
  sigset_t pending;
  if (::sigpending(&pending) == 0 && ::sigismember(&pending, SIGCONT) == 1) return;
  ::raise(SIGSTOP);
}

// Handles one signal, such as that of Ctrl-Z or Ctrl-C. Loop thread.
void on_signal(int signo, launcherd::RestartingJob& runner, StdinReader& input, launcherd::NoticeWriter& notices,
               int* interrupts) {
  switch (signo) {
    case SIGUSR1:
    case SIGUSR2:
      runner.signal_ranks(signo);
      break;
    case SIGTSTP:
      input.pause();
      runner.suspend(true, stop_ourselves);
      break;
    case SIGWINCH:
      tell_size(runner);
      break;
    case SIGCONT:
      tell_size(runner);
      input.resume();
      runner.suspend(false, nullptr);
      break;
    default:
      if (++*interrupts == 1) notices.line("stopping all ranks; once more ends them at once");
      runner.stop(cause_of(signo));
      break;
  }
}

base::Result<std::unique_ptr<launcherd::Bootstrap>> open_bootstrap(const HvdrunOptions& options,
                                                                   const std::string& agent_path,
                                                                   launcherd::NoticeWriter& notices) {
  launcherd::BootstrapOptions bootstrap = bootstrap_options(options, agent_path, notices);
  bootstrap.start_timeout = options.job.start_timeout;
  return launcherd::make_bootstrap(std::move(bootstrap));
}

void say_what_starts(const HvdrunOptions& options, const PlacedJob& placed, const std::string& bootstrap_note,
                     launcherd::NoticeWriter& notices) {
  if (options.quiet) return;
  for (const std::string& note : options.notes) notices.line(note);
  if (!options.launch.verbose) return;
  if (!placed.hosts_note.empty()) notices.line(placed.hosts_note);
  if (!bootstrap_note.empty()) notices.line(bootstrap_note);
  notices.line(model::format_placement(placed.placement));
}

// Opens the file of --json-events. nullptr if the user gave none.
base::Result<std::unique_ptr<EventFile>> open_events(const HvdrunOptions& options, const PlacedJob& placed,
                                                     const std::string& directory, const base::Clock& clock,
                                                     launcherd::JobObserver* next) {
  if (options.events_file.empty()) return std::unique_ptr<EventFile>();
  return EventFile::open(absolute_path(options.events_file, directory), options.launch.job_id, placed.placement, clock,
                         next);
}

// Finds the end of the allocation for --signal. If it is unknown, --signal can use only --timeout.
void find_end(HvdrunOptions& options, const base::Environment& environment) {
  if (!options.job.end_signal) return;
  const auto end = launcherd::allocation_end(environment, ask_scheduler, base::SystemClock().wall());
  if (end.ok()) {
    options.launch.ends_at = *end;
  } else {
    options.notes.push_back(fmt::format("--signal: {}", base::printable(end.status().message())));
  }
}

// --health-check full: runs one rank on each host, which tests libmuster's operations. It shows only failures.
int run_self_test(const HvdrunOptions& options, const model::Placement& placement,
                  const base::Environment& environment) {
  const auto directory = program_directory();
  if (!directory.ok()) return fail_as("hvdrun", kMusterFailed, directory.status().message());
  HvdrunOptions test = options;
  test.job.placement.hosts.clear();
  for (const model::PlacedHost& placed : placement.hosts) test.job.placement.hosts.push_back(placed.host);
  test.job.placement.np = 0;
  test.job.placement.ranks_per_node = 1;
  for (model::HostSpec& host : test.job.placement.hosts) host.slots = 1;
  test.job.command = {*directory + "/muster_perf", "--self-test"};
  test.job.expand.clear();
  test.job.roles.clear();
  test.job.places.clear();
  test.job.stages.clear();
  test.job.is_dmlc = false;
  test.job.input = {.to = model::InputTo::kNone};
  test.job.output_dir.clear();
  test.job.log_dir.clear();
  test.job.output.hidden = {.of_others = model::kStdout | model::kStderr};
  test.job.end_signal.reset();
  test.job.max_restarts = 0;
  test.events_file.clear();
  test.quiet = true;
  test.health_check = HealthCheck::kOff;
  test.spares = 0;
  test.host_numbers.reset();
  test.hostfile.clear();
  test.nodes.reset();
  test.devices.reset();
  test.elastic = {};
  test.dmlc.reset();
  test.notes.clear();
  const int code = run_job(std::move(test), environment);
  if (code == 0 || code > 128) return code;  // above 128: the user ended it by a signal
  return fail_as("hvdrun", kMusterFailed, "--health-check full: the self-test failed, and the job was not started");
}

}  // namespace

int run_job(HvdrunOptions options, const base::Environment& environment) {
  // Find the hosts before signals are blocked, so that Ctrl-C ends any program that is asked for them.
  const std::string directory = logical_working_directory(environment);
  const LookAtHosts look = [&](const std::vector<model::HostSpec>& hosts) {
    return probe_shapes(options, hosts, environment);
  };
  const CheckHosts check = [&](const std::vector<model::HostSpec>& hosts) {
    return check_health(options, hosts, environment);
  };
  auto placed = place_job(options, environment, directory, look, check);
  if (!placed.ok()) return fail_as("hvdrun", placement_exit_code(placed.status()), placed.status().message());
  const auto bootstrap_note = settle_bootstrap(options, environment);
  if (!bootstrap_note.ok()) return fail_as("hvdrun", kUsageError, bootstrap_note.status().message());
  if (options.health_check == HealthCheck::kFull) {
    if (const int failed = run_self_test(options, placed->placement, environment); failed != 0) return failed;
  }
  find_end(options, environment);

  EndBound end;     // declared before all objects whose destructors it bounds
  base::Loop loop;  // declared early, because it must outlive all that wait on it or post to it
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH});
  if (!signals.ok()) return fail_as("hvdrun", kMusterFailed, signals.status().message());
  ::signal(SIGPIPE, SIG_IGN);
  hide_memory();
  base::raise_descriptor_limit();  // each host needs at least one descriptor
  if (const base::Status room = base::check_thread_room(kJobThreads); !room.ok()) {
    return fail_as("hvdrun", kMusterFailed, room.message());
  }

  options.job.input = settle_input(options.job.input, STDIN_FILENO);
  const auto agent_path = find_agent(environment);
  if (!agent_path.ok()) return fail_as("hvdrun", kMusterFailed, agent_path.status().message());

  const base::SystemClock clock;
  const std::string log_dir = absolute_path(options.job.log_dir, directory);
  const int size = placed->placement.size;
  if (const base::Status removed = launcherd::remove_error_files(log_dir, log_dir.empty() ? 0 : size); !removed.ok()) {
    return fail_as("hvdrun", kUsageError, removed.message());
  }
  auto outlets = Outlets::open(clock, options.job, options.label, placed->placement,
                               absolute_path(options.job.output_dir, directory), log_dir);
  if (!outlets.ok()) return fail_as("hvdrun", kUsageError, outlets.status().message());
  launcherd::NoticeWriter& notices = (*outlets)->notices();
  auto bootstrap = open_bootstrap(options, *agent_path, notices);
  if (!bootstrap.ok()) return fail_as("hvdrun", kMusterFailed, bootstrap.status().message());

  say_what_starts(options, *placed, *bootstrap_note, notices);
  const std::string job_id = base::JobId::random().str();
  options.launch.job_id = job_id;
  options.launch.build_id = base::build_id();
  JobViewOptions view_options{.is_terminal = (*outlets)->is_terminal(),
                              .verbose = options.launch.verbose,
                              .reports_bindings = options.reports_bindings,
                              .quiet = options.quiet,
                              .placement = {},
                              .on_error_file = [&](int rank, const std::string& content) {
                                const base::Status written = launcherd::write_error_file(log_dir, rank, size, content);
                                if (!written.ok()) notices.line(written.message());
                              }};
  view_options.placement.roles = placed->placement.roles;
  JobView view(&notices, view_options, [&] { loop.stop(); });
  auto events = open_events(options, *placed, directory, clock, &view);
  if (!events.ok()) return fail_as("hvdrun", kUsageError, events.status().message());
  launcherd::JobObserver* observer = *events != nullptr ? static_cast<launcherd::JobObserver*>(events->get()) : &view;
  launcherd::JobRecord record(job_id, model::all_commands(options.job), placed->placement, clock, observer);
  const model::JobInput wanted = options.job.input;
  StdinReader input(loop, STDIN_FILENO,
                    {.reads = wanted.to != model::InputTo::kNone,
                     .wants_raw = wanted.pty,
                     .on_raw = [&outlets](bool is_raw) { (*outlets)->set_raw(is_raw); }});
  options.launch.may_spawn = true;
  auto runner = std::make_unique<launcherd::RestartingJob>(loop, clock, std::move(options.job),
                                                           std::move(placed->placement), options.launch, environment,
                                                           bootstrap->get(), (*outlets)->sink(), &record);
  runner->set_input(&input);
  tell_size(*runner);
  int interrupts = 0;
  signals->watch(loop, [&](int signo) { on_signal(signo, *runner, input, notices, &interrupts); });
  if (const base::Status started = runner->start(); !started.ok())
    return fail_as("hvdrun", kMusterFailed, started.message());
  {
    const ForegroundApi api(loop, environment, job_id, runner.get(), &record);
    loop.run();
    end.arm(kLastWords + kEndTime, view.outcome()->exit_code);
  }
  (*outlets)->close(clock.now() + kLastWords);
  runner.reset();
  return view.outcome()->exit_code;
}

int run_command(const std::function<ParsedHvdrun(const base::Environment&)>& parse) {
  try {
    const base::Environment environment = base::Environment::current();
    ParsedHvdrun parsed = parse(environment);
    parsed.options.job.environment.python_folders = python_folders();
    if (!parsed.exit_code && parsed.options.dry_run.is_on) {
      return run_dry(std::move(parsed.options), environment,
                     [&](const HvdrunOptions& options, const std::vector<model::HostSpec>& hosts) {
                       return probe_shapes(options, hosts, environment);
                     });
    }
    if (!parsed.exit_code && !parsed.options.launcher.empty()) {
      return run_remote(std::move(parsed.options), environment);
    }
    if (!parsed.exit_code) return run_job(std::move(parsed.options), environment);
    if (*parsed.exit_code == 0) return print_answer("hvdrun", parsed.text);
    (void)base::print_text(stderr, parsed.text);
    return *parsed.exit_code;
    // A constructor on this thread failed to start a thread.
  } catch (const std::system_error& failure) {
    return fail_as("hvdrun", kMusterFailed, base::thread_failure(failure));
  }
}

}  // namespace muster::cli::run
