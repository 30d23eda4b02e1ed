// This file submits a job to launcherd, then follows it as if it ran here.
// Read from the end: run_remote(), make_order(), follow(); abandon() ends a job that cannot be followed.
#include "cli/run/run_remote.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>

#include "base/loop.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/hosts/console.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "cli/verbs/attached_job.h"
#include "cli/verbs/launcher_address.h"
#include "cli/verbs/submission.h"
#include "cli/view/log_output.h"
#include "cli/view/outlets.h"
#include "cli/view/signals.h"
#include "proto/message_json.h"

namespace muster::cli::inline run {
namespace {

int fail(const Console& console, const base::Status& status) {
  const bool is_usage = status.code() == base::Code::kInvalidArgument || status.code() == base::Code::kNotFound;
  return console.fail("hvdrun", is_usage ? kUsageError : kMusterFailed, base::printable(status.message()));
}

base::Result<launcherd::LauncherAddress> launcher_of(const std::string& launcher,
                                                     const base::Environment& environment) {
  if (launcher == "auto") return need_launcherd(Settings(), environment);
  return named_launcherd(launcher, "--launcher", Settings(), environment);
}

// --json-events: writes launcherd's own events, with launcherd's numbers and times. Used by one thread.
class EventLines {
 public:
  static base::Result<EventLines> open(const std::string& path) {
    EventLines lines;
    if (path.empty()) return lines;
    lines.fd_.reset(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
    if (!lines.fd_.valid()) return base::errno_error(errno, fmt::format("--json-events: open {}", path));
    return lines;
  }
  void write(const v1::Event& event, launcherd::NoticeWriter& notices) {
    if (!fd_.valid()) return;
    const std::string line = proto::message_line(event);
    const base::Status written = base::write_all_blocking(fd_.get(), line.data(), line.size());
    if (written.ok()) return;
    fd_.reset();
    notices.line(fmt::format("--json-events: {}; no more events are written", written.message()));
  }

 private:
  base::UniqueFd fd_;
};

struct Order {
  launcherd::LauncherAddress launcher;
  v1::SubmitRequest request;
};

base::Result<Order> make_order(HvdrunOptions& options, const base::Environment& environment,
                               const std::string& directory) {
  MUSTER_RETURN_IF_ERROR(check_for_launcherd(options.request, options.reach, options.output));
  Order order;
  MUSTER_ASSIGN_OR_RETURN(order.launcher, launcher_of(options.reach.launcher, environment));
  MUSTER_ASSIGN_OR_RETURN(order.request,
                          make_submission(options.request, options.reach.contain, environment, directory));
  order.request.set_name(options.request.name);
  order.request.mutable_spec()->set_on_launcher_loss(v1::ON_LAUNCHER_LOSS_HOLD);
  return order;
}

// Makes the folder before the job runs, to check that files can be written. The files come later, once their number is
// known.
base::Status make_output_folder(const model::JobSpec& job, const std::string& directory) {
  if (job.output_dir.empty()) return base::ok_status();
  const std::string folder = absolute_path(job.output_dir, directory);
  MUSTER_RETURN_IF_ERROR(launcherd::FileSink::create(folder, 0).status());
  if (::access(folder.c_str(), W_OK | X_OK) == 0) return base::ok_status();
  return base::errno_error(errno, fmt::format("--output-filename: write to {}", folder));
}

// Ends a job that cannot be followed, so that it does not run unnoticed by the user. Returns the exit code.
int abandon(const FoundJob& job, const base::Status& why) {
  v1::KillRequest request;
  request.set_job(job.id);
  const base::Status killed = launcherd::ApiClient(job.launcher).kill(request, kPatience);
  // FAILED_PRECONDITION means that the job has ended already.
  const bool is_ended = killed.ok() || killed.code() == base::Code::kFailedPrecondition;
  const std::string fate =
      is_ended ? "was ended" : fmt::format("may still run ({}): end it by muster kill {}", killed.message(), job.id);
  base::print_remark("hvdrun: {}; the submitted job {} {}\n", base::printable(why.message()), job.id,
                     base::printable(fate));
  return kMusterFailed;
}

// Opens one file for each rank. launcherd chooses the hosts of the ranks, so the placement here holds only the number
// of ranks.
base::Result<std::unique_ptr<Outlets>> open_outlets(const model::JobSpec& spec, const OutputPlan& plan,
                                                    const FoundJob& job, const base::Clock& clock,
                                                    const std::string& directory) {
  model::Placement placement;
  launcherd::ApiClient client(job.launcher);
  const auto now = ask_job(client, job, kNoRanks);
  if (now.ok()) {
    placement.size = now->size();
  } else if (!spec.output_dir.empty()) {
    return now.status();  // without files, the number only makes equal lines appear sooner
  }
  return Outlets::open(
      clock, spec, {plan.label, plan.fold}, placement,
      {.output = absolute_path(spec.output_dir, directory), .logs = absolute_path(spec.log_dir, directory)});
}

int follow(const model::JobSpec& spec, const OutputPlan& plan, const FoundJob& job, EventLines& events,
           Signals& signals, base::Loop& loop, const std::string& directory, bool marks_errors) {
  ChunkClock clock;
  auto outlets = open_outlets(spec, plan, job, clock, directory);
  if (!outlets.ok()) return abandon(job, outlets.status());
  launcherd::NoticeWriter& notices = (*outlets)->notices();
  for (const std::string& note : plan.notes) {
    if (!plan.quiet) notices.line(note);
  }
  if (plan.verbose) {
    notices.line(fmt::format("job {} of the launcherd at {}", job.id, format_launcher_address(job.launcher)));
  }
  LogOutput output((*outlets)->sink(), &clock, [&](const std::string& line) { notices.line(line); });
  AttachedJob attached(loop,
                       {.job = job,
                        .request = {},
                        .owns_job = true,
                        .is_terminal = (*outlets)->is_terminal(),
                        .shows_stderr = (*outlets)->shows_all(),
                        .quiet = plan.quiet,
                        .has_color = marks_errors,
                        .on_event = [&](const v1::Event& event) { events.write(event, notices); }},
                       &output, notices, [&] { loop.stop(); });
  signals.watch(loop, [&](int signo) { attached.on_signal(signo); });
  if (const base::Status started = attached.start(); !started.ok()) return abandon(job, started);
  loop.run();
  (*outlets)->close(std::chrono::steady_clock::now() + kFlushTimeout);
  return attached.exit_code();
}

}  // namespace

int run_remote(HvdrunOptions options, const base::Environment& environment) {
  const std::string directory = logical_working_directory(environment);
  const Console console(options.output.color, environment);
  base::Loop loop;  // declared early, because it must outlive all that wait on it or post to it
  // From here on a signal ends the job, even if it comes before launcherd has answered.
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  if (!signals.ok()) return fail(console, signals.status());
  ::signal(SIGPIPE, SIG_IGN);
  auto order = make_order(options, environment, directory);
  if (!order.ok()) return fail(console, order.status());
  // Open all files before anything runs, so that a mistake is found early.
  auto events = EventLines::open(absolute_path(options.output.events_file, directory));
  const base::Status ready = events.ok() ? make_output_folder(options.request.job, directory) : events.status();
  if (!ready.ok()) {
    fail(console, ready);
    return kUsageError;
  }
  const auto id = submit_once(order->launcher, std::move(order->request));
  if (!id.ok()) return fail(console, id.status());
  return follow(options.request.job, options.output, {*id, order->launcher}, *events, *signals, loop, directory,
                console.marks_errors());
}

}  // namespace muster::cli::run
