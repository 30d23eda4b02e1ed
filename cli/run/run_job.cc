// This file builds the parts of a foreground launcher, connects them and runs them: run_job().
// Read from the end: run_command(), run_job(), run_placed(), then on_signal().
#include "cli/run/run_job.h"

#include <signal.h>
#include <unistd.h>

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "base/build_id.h"
#include "base/ids.h"
#include "base/loop.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/doctor/probe_hosts.h"
#include "cli/hosts/console.h"
#include "cli/hosts/dry_run.h"
#include "cli/hosts/end_bound.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/slot_wait.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "cli/run/foreground_api.h"
#include "cli/run/host_health.h"
#include "cli/run/job_tracing.h"
#include "cli/run/run_remote.h"
#include "cli/run/self_test.h"
#include "cli/view/bootstrap_options.h"
#include "cli/view/event_file.h"
#include "cli/view/job_scalars.h"
#include "cli/view/job_view.h"
#include "cli/view/launcher_process.h"
#include "cli/view/outlets.h"
#include "cli/view/raw_terminal.h"
#include "cli/view/signals.h"
#include "cli/view/stdin_reader.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/hosts/time_limit.h"
#include "launcherd/output/counting_sink.h"
#include "launcherd/output/rank_folder.h"
#include "launcherd/run/host_discovery.h"
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

void resize_terminal(launcherd::RestartingJob& runner) {
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
      resize_terminal(runner);
      break;
    case SIGCONT:
      resize_terminal(runner);
      input.resume();
      runner.suspend(false, nullptr);
      break;
    default:
      if (++*interrupts == 1) notices.line("stopping all ranks; another signal ends them at once");
      runner.stop(cause_of(signo));
      break;
  }
}

// Returns what the ranks get as TORCHELASTIC_RUN_ID.
std::string torch_run_id(const model::JobSpec& job, const std::string& job_id) {
  constexpr std::string_view kVariable = "TORCHELASTIC_RUN_ID=";
  std::string id = job_id;
  for (const std::string& named : job.environment.named) {
    if (named.starts_with(kVariable)) id = named.substr(kVariable.size());
  }
  return id;
}

void print_start(const OutputPlan& output, const PlacedJob& placed, const std::string& bootstrap_note,
                 Outlets& outlets) {
  launcherd::NoticeWriter& notices = outlets.notices();
  if (output.quiet) return;
  for (const std::string& note : output.notes) notices.line(note);
  if (!output.verbose) return;
  if (!placed.hosts_note.empty()) notices.line(placed.hosts_note);
  if (!bootstrap_note.empty()) notices.line(bootstrap_note);
  notices.line(model::format_placement(placed.placement));
  if (outlets.torch_logs() == nullptr) return;
  for (const auto& [host, folder] : outlets.torch_logs()->hosts()) {
    notices.line(base::printable(fmt::format("logs of {}: {}", host, folder)));
  }
}

// Opens the file of --json-events. nullptr if the user gave none.
base::Result<std::unique_ptr<EventFile>> open_events(const std::string& file, const std::string& job_id,
                                                     const model::Placement& placement, const base::Clock& clock,
                                                     launcherd::JobObserver* next) {
  if (file.empty()) return std::unique_ptr<EventFile>();
  return EventFile::open(file, job_id, placement, clock, next);
}

// Opens the file of --tensorboard. nullptr if the user gave none.
base::Result<std::unique_ptr<JobScalars>> open_scalars(base::Loop& loop, const base::Clock& clock,
                                                       const std::string& folder, const launcherd::CountingSink& output,
                                                       launcherd::JobObserver* next) {
  if (folder.empty()) return std::unique_ptr<JobScalars>();
  MUSTER_ASSIGN_OR_RETURN(auto file, TensorboardFile::create("--tensorboard", folder, clock.wall()));
  return std::make_unique<JobScalars>(
      loop, clock, std::move(file), [&output] { return output.bytes(); }, next);
}

// Finds the end of the allocation for --signal. If it is unknown, a note says so, and --signal can use only --timeout.
std::optional<base::WallTime> find_end(const model::JobSpec& job, const base::Environment& environment,
                                       std::vector<std::string>& notes) {
  if (!job.end_signal) return std::nullopt;
  const auto end = launcherd::allocation_end(environment, ask_scheduler, base::SystemClock().wall());
  if (end.ok()) return *end;
  notes.push_back(fmt::format("--signal: {}", base::printable(end.status().message())));
  return std::nullopt;
}

// Runs the host discovery script of an elastic job while the job runs. nullptr for other jobs.
std::unique_ptr<launcherd::HostDiscovery> make_discovery(base::Loop& loop, const ElasticOptions& elastic,
                                                         launcherd::RestartingJob& runner,
                                                         launcherd::NoticeWriter& notices) {
  if (!elastic.discovered) return nullptr;
  launcherd::HostDiscoveryOptions options{.script = elastic.discovery_script};
  if (elastic.slots_per_host) options.slots_per_host = static_cast<int>(*elastic.slots_per_host);
  return std::make_unique<launcherd::HostDiscovery>(
      loop, std::move(options), *elastic.discovered,
      launcherd::HostDiscovery::Events{
          // A job that ends takes no more hosts.
          .on_hosts = [&runner](auto hosts) { static_cast<void>(runner.set_live_hosts(std::move(hosts))); },
          .on_warning = [&notices](const std::string& line) { notices.line(line); }});
}

launcherd::LaunchOptions launch_options(const HvdrunOptions& options, std::optional<base::WallTime> ends_at) {
  launcherd::LaunchOptions launch;
  launch.job_id = base::JobId::random().str();
  launch.agent_link = options.reach.agent_link;
  launch.fanout = options.reach.fanout;
  launch.contain = options.reach.contain;
  launch.build_id = base::build_id();
  launch.verbose = options.output.verbose;
  launch.may_spawn = true;
  launch.wants_load = !options.output.tensorboard_dir.empty();
  launch.ends_at = ends_at;
  return launch;
}

JobViewOptions view_options(const OutputPlan& output, const model::Placement& placement, Outlets& outlets,
                            const std::string& log_dir, const std::string& job_id, bool marks_errors) {
  const auto write_error_file = [logs = outlets.torch_logs(), log_dir, size = placement.size](
                                    int rank, const std::string& content) {
    if (logs != nullptr) return logs->write_error_file(rank, content);
    return launcherd::write_error_file(log_dir, rank, size, content);
  };
  JobViewOptions view{.is_terminal = outlets.is_terminal(),
                      .verbose = output.verbose,
                      .reports_bindings = output.reports_bindings,
                      .shows_stderr = outlets.shows_all(),
                      .quiet = output.quiet,
                      .placement = {},
                      .on_error_file =
                          [&notices = outlets.notices(), write_error_file](int rank, const std::string& content) {
                            const base::Status written = write_error_file(rank, content);
                            if (!written.ok()) notices.line(written.message());
                          },
                      .on_generation = [&outlets](const model::Placement& now) { outlets.set_placement(now); }};
  view.job_id = job_id;
  view.has_color = marks_errors;
  view.placement.roles = placement.roles;
  return view;
}

// The bootstraps of a job's attempts.
class Bootstraps {
 public:
  Bootstraps(launcherd::BootstrapOptions options, launcherd::NoticeWriter& notices)
      : options_(std::move(options)), notices_(notices) {}

  base::Status open() {
    MUSTER_ASSIGN_OR_RETURN(auto made, launcherd::make_bootstrap(options_));
    made_.push_back(std::move(made));
    return base::ok_status();
  }
  // Keeps the one before, because its threads may still end.
  launcherd::Bootstrap* of_attempt(int attempt) {
    if (attempt > 0) {
      if (const base::Status opened = open(); !opened.ok()) notices_.line(opened.message());
      if (made_.size() > 2) made_.pop_front();
    }
    return made_.back().get();
  }

 private:
  const launcherd::BootstrapOptions options_;
  launcherd::NoticeWriter& notices_;
  std::deque<std::unique_ptr<launcherd::Bootstrap>> made_;
};

// Runs the job on its hosts and returns the exit code.
int run_placed(HvdrunOptions options, PlacedJob placed, const std::string& bootstrap_note, const std::string& directory,
               const base::Environment& environment) {
  launcherd::LaunchOptions launch =
      launch_options(options, find_end(options.request.job, environment, options.output.notes));
  const Console console(options.output.color, environment);
  EndBound end;     // declared before all objects whose destructors it bounds
  base::Loop loop;  // declared early, because it must outlive all that wait on it or post to it
  auto signals = prepare_launcher({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH}, kJobThreads);
  if (!signals.ok()) return console.fail("hvdrun", kMusterFailed, signals.status().message());
  model::JobSpec job = std::move(options.request.job);
  job.input = settle_input(job.input, STDIN_FILENO);
  const model::JobInput wanted = job.input;
  auto agent_path = find_agent(environment);
  if (!agent_path.ok()) return console.fail("hvdrun", kMusterFailed, agent_path.status().message());

  const base::SystemClock clock;
  const std::string log_dir = absolute_path(job.log_dir, directory);
  const bool is_ours = job.log_layout == model::LogLayout::kRanks;
  const int size = log_dir.empty() || !is_ours ? 0 : placed.placement.size;
  if (const base::Status removed = launcherd::remove_error_files(log_dir, size); !removed.ok()) {
    return console.fail("hvdrun", kUsageError, removed.message());
  }
  auto outlets = Outlets::open(clock, job, {options.output.label, options.output.fold}, placed.placement,
                               {.output = absolute_path(job.output_dir, directory),
                                .logs = log_dir,
                                .run_id = torch_run_id(job, launch.job_id)});
  if (!outlets.ok()) return console.fail("hvdrun", kUsageError, outlets.status().message());
  launcherd::NoticeWriter& notices = (*outlets)->notices();
  Bootstraps bootstraps(bootstrap_options(options.reach, *std::move(agent_path), notices, options.output.verbose),
                        notices);
  if (const base::Status opened = bootstraps.open(); !opened.ok())
    return console.fail("hvdrun", kMusterFailed, opened.message());

  print_start(options.output, placed, bootstrap_note, **outlets);
  JobView view(
      &notices,
      view_options(options.output, placed.placement, **outlets, log_dir, launch.job_id, console.marks_errors()),
      [&] { loop.stop(); });
  auto events =
      open_events(absolute_path(options.output.events_file, directory), launch.job_id, placed.placement, clock, &view);
  if (!events.ok()) return console.fail("hvdrun", kUsageError, events.status().message());
  launcherd::JobObserver* observer = *events != nullptr ? static_cast<launcherd::JobObserver*>(events->get()) : &view;
  launcherd::CountingSink counted((*outlets)->sink());
  auto scalars = open_scalars(loop, clock, absolute_path(options.output.tensorboard_dir, directory), counted, observer);
  if (!scalars.ok()) return console.fail("hvdrun", kUsageError, scalars.status().message());
  if (*scalars != nullptr) observer = scalars->get();
  launcherd::JobRecord record(launch.job_id, model::all_commands(job), placed.placement, clock, observer);
  record.set_name(options.request.name);
  auto tracing = JobTracing::start(environment, launch.job_id, options.request.name, clock, notices);
  if (tracing != nullptr) {
    launch.trace = tracing->context();
    tracing->watch(record);
  }
  StdinReader input(loop, STDIN_FILENO,
                    {.reads = wanted.to != model::InputTo::kNone,
                     .wants_raw = wanted.pty,
                     .on_raw = [&outlets](bool is_raw) { (*outlets)->set_raw(is_raw); }});
  auto runner = std::make_unique<launcherd::RestartingJob>(
      loop, clock,
      launcherd::JobSetup{std::move(job), std::move(placed.placement), launch, environment, &counted, &record,
                          [&outlets] { return (*outlets)->take_progress(); }},
      [&bootstraps](int attempt) { return bootstraps.of_attempt(attempt); });
  runner->set_input(&input);
  resize_terminal(*runner);
  int interrupts = 0;
  signals->watch(loop, [&](int signo) { on_signal(signo, *runner, input, notices, &interrupts); });
  auto discovery = make_discovery(loop, options.request.elastic, *runner, notices);
  base::Status started = runner->start();
  if (started.ok() && discovery != nullptr) started = discovery->start();
  if (!started.ok()) return console.fail("hvdrun", kMusterFailed, started.message());
  {
    const ForegroundApi api(loop, environment, launch.job_id, runner.get(), &record);
    loop.run();
    end.arm(kFlushTimeout + kEndTime, view.outcome()->exit_code);
  }
  discovery.reset();
  tracing.reset();
  (*outlets)->close(clock.now() + kFlushTimeout);
  runner.reset();
  return view.outcome()->exit_code;
}

}  // namespace

int run_job(HvdrunOptions options, const base::Environment& environment) {
  // Find the hosts before signals are blocked, so that Ctrl-C also ends a program that lists them.
  const std::string directory = logical_working_directory(environment);
  const Console console(options.output.color, environment);
  const bool verbose = options.output.verbose;
  const ProbeShapes probe = [&](const std::vector<model::HostSpec>& hosts) {
    return probe_shapes(options.request.job, options.reach, hosts, environment, verbose);
  };
  const CheckHosts check = [&](const std::vector<model::HostSpec>& hosts) {
    return check_health(options.request.job, options.reach, hosts, environment, verbose);
  };
  const auto report = [&](const std::string& line) {
    if (!options.output.quiet) base::print_remark("hvdrun: {}\n", line);
  };
  const base::Status waited = wait_for_slots(options.request, report);
  if (!waited.ok()) return console.fail("hvdrun", placement_exit_code(waited), waited.message());
  auto placed = place_job(options, environment, directory, probe, check);
  if (!placed.ok()) return console.fail("hvdrun", placement_exit_code(placed.status()), placed.status().message());
  const auto bootstrap_note = settle_bootstrap(options.reach.bootstrap, environment);
  if (!bootstrap_note.ok()) return console.fail("hvdrun", kUsageError, bootstrap_note.status().message());
  if (options.request.health_check == HealthCheck::kFull) {
    if (const int failed = run_self_test(options, placed->placement, environment); failed != 0) return failed;
  }
  return run_placed(std::move(options), std::move(*placed), *bootstrap_note, directory, environment);
}

int run_command(ColorWhen color, const ParseCommand& parse) {
  return run_program("hvdrun", [&](const base::Environment& environment) {
    const Console console(color, environment);
    ParsedHvdrun parsed = parse(environment, console.look());
    if (parsed.exit_code) return console.reply("hvdrun", {*parsed.exit_code, parsed.text, parsed.is_help});
    HvdrunOptions& options = parsed.options;
    options.request.job.environment.python_folders = python_folders();
    if (options.dry_run.is_on) {
      const ProbeJobHosts ask = [&, reach = options.reach, verbose = options.output.verbose](
                                    const model::JobSpec& job, const std::vector<model::HostSpec>& hosts) {
        return probe_shapes(job, reach, hosts, environment, verbose);
      };
      return run_dry(std::move(options), environment, ask);
    }
    if (!options.reach.launcher.empty()) return run_remote(std::move(options), environment);
    return run_job(std::move(options), environment);
  });
}

}  // namespace muster::cli::run
