#include "cli/run_remote.h"

#include <fcntl.h>
#include <signal.h>

#include <cerrno>

#include "base/loop.h"
#include "base/print.h"
#include "base/strings.h"
#include "cli/attached_job.h"
#include "cli/launcher_address.h"
#include "cli/log_output.h"
#include "cli/outlets.h"
#include "cli/signals.h"
#include "cli/submission.h"
#include "cli/surroundings.h"
#include "proto/message_json.h"

namespace muster::cli {
namespace {

constexpr int kUsageError = 2;
constexpr int kMusterFailed = 125;
constexpr std::chrono::seconds kLastWords{2};  // for a terminal that does not take them

int fail(const base::Status& status) {
  const bool is_usage = status.code() == base::Code::kInvalidArgument || status.code() == base::Code::kNotFound;
  base::print_remark("hvdrun: {}\n", base::printable(status.message()));
  return is_usage ? kUsageError : kMusterFailed;
}

base::Result<launcherd::LauncherAddress> launcher_of(const HvdrunOptions& options,
                                                     const base::Environment& environment) {
  if (options.launcher == "auto") return need_launcherd(Settings(), environment);
  return named_launcherd(options.launcher, "--launcher", Settings(), environment);
}

// --json-events: launcherd's own events, as it numbers and dates them. Used by one thread.
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

base::Result<FoundJob> submit(HvdrunOptions& options, const base::Environment& environment,
                              const std::string& directory) {
  MUSTER_RETURN_IF_ERROR(check_for_launcherd(options));
  MUSTER_ASSIGN_OR_RETURN(const auto launcher, launcher_of(options, environment));
  MUSTER_ASSIGN_OR_RETURN(auto request, make_submission(options, environment, directory));
  request.mutable_spec()->set_on_launcher_loss(v1::ON_LAUNCHER_LOSS_HOLD);
  MUSTER_ASSIGN_OR_RETURN(const auto submitted, launcherd::ApiClient(launcher).submit(request, kPatience));
  return FoundJob{submitted.job_id(), launcher};
}

// As many files as it has ranks; which rank is where, launcherd decides.
base::Result<std::unique_ptr<Outlets>> open_outlets(const HvdrunOptions& options, const FoundJob& job,
                                                    const base::Clock& clock, const std::string& directory) {
  model::Placement placement;
  if (!options.job.output_dir.empty()) {
    launcherd::ApiClient client(job.launcher);
    MUSTER_ASSIGN_OR_RETURN(const v1::Job now, ask_job(client, job, kNoRanks));
    placement.size = now.size();
  }
  return Outlets::open(clock, options.job, placement, absolute_path(options.job.output_dir, directory));
}

int follow(const HvdrunOptions& options, const FoundJob& job, Signals& signals, base::Loop& loop,
           const std::string& directory) {
  ChunkClock clock;
  auto events = EventLines::open(absolute_path(options.events_file, directory));
  if (!events.ok()) return fail(events.status());
  auto outlets = open_outlets(options, job, clock, directory);
  if (!outlets.ok()) return fail(outlets.status());
  launcherd::NoticeWriter& notices = (*outlets)->notices();
  for (const std::string& note : options.notes) {
    if (!options.quiet) notices.line(note);
  }
  if (options.launch.verbose) {
    notices.line(fmt::format("job {} of the launcherd at {}", job.id, format_launcher_address(job.launcher)));
  }
  LogOutput output((*outlets)->sink(), &clock, [&](const std::string& line) { notices.line(line); });
  AttachedJob attached(loop,
                       {.job = job,
                        .wish = {},
                        .owns_job = true,
                        .is_terminal = (*outlets)->is_terminal(),
                        .quiet = options.quiet,
                        .on_event = [&](const v1::Event& event) { events->write(event, notices); }},
                       &output, notices, [&] { loop.stop(); });
  signals.watch(loop, [&](int signo) { attached.on_signal(signo); });
  if (const base::Status started = attached.start(); !started.ok()) return fail(started);
  loop.run();
  (*outlets)->close(std::chrono::steady_clock::now() + kLastWords);
  return attached.exit_code();
}

}  // namespace

int run_remote(HvdrunOptions options, const base::Environment& environment) {
  const std::string directory = logical_working_directory(environment);
  base::Loop loop;  // first: it outlives whatever waits on it or posts to it
  // From here on a signal ends the job, also if it comes before launcherd has answered.
  auto signals = Signals::block({SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2});
  if (!signals.ok()) return fail(signals.status());
  ::signal(SIGPIPE, SIG_IGN);
  const auto job = submit(options, environment, directory);
  if (!job.ok()) return fail(job.status());
  return follow(options, *job, *signals, loop, directory);
}

}  // namespace muster::cli
