// This file holds outcome_of() and AttachedJob, which follows a job with two reading threads and the loop.
// Read start(), read_output() and read_events(), then on_…_end() and finish_if_over(), then on_signal().
#include "cli/verbs/attached_job.h"

#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "base/thread.h"
#include "cli/options/exit_codes.h"
#include "cli/view/hang_view.h"
#include "cli/view/report.h"
#include "proto/convert.h"
#include "proto/hang_convert.h"

namespace muster::cli::inline verbs {
namespace {

using launcherd::ApiClient;
using launcherd::StopCause;

// Returns the cause that stopped a job, as far as its exit code tells.
StopCause cause_of(const v1::Job& job, int root, int exit_code) {
  if (root >= 0) return StopCause::kNone;
  switch (exit_code) {
    case model::kSuccess:
      return StopCause::kNone;
    case model::kUsageError:
      return StopCause::kRefused;
    case model::kTimedOut:
      return StopCause::kTimeout;
    case model::kHungUp:
      return StopCause::kHangup;
    case model::kInterrupted:
      return StopCause::kInterrupt;
    case model::kTerminated:
      return StopCause::kTerminate;
    default:
      return job.state() == v1::JOB_STATE_KILLED ? StopCause::kTerminate : StopCause::kHostFailed;
  }
}

}  // namespace

launcherd::JobOutcome outcome_of(const EndedJob& ended, int stop_signal) {
  launcherd::JobOutcome outcome;
  outcome.exit_code = ended.exit_code;
  for (const v1::RankEnd& end : ended.report.ends()) {
    if (end.rank() == ended.report.root_cause_rank()) outcome.root = static_cast<int>(outcome.ends.size());
    outcome.ends.push_back(proto::rank_end_of(end));
  }
  // launcherd knows only that it was asked to end the job. Only this process knows the signal, so put it into the exit
  // code.
  if (stop_signal != 0 && outcome.exit_code == model::kTerminated) {
    outcome.exit_code = model::signal_exit_code(stop_signal);
  }
  outcome.cause = cause_of(ended.job, outcome.root, outcome.exit_code);
  outcome.stderr_tail =
      base::join(std::vector<std::string>(ended.report.stderr_tail().begin(), ended.report.stderr_tail().end()), "\n");
  outcome.alike_ranks = {ended.report.alike_ranks().begin(), ended.report.alike_ranks().end()};
  const bool is_by_hosts = outcome.cause == StopCause::kHostFailed || outcome.cause == StopCause::kRefused;
  if (is_by_hosts && !ended.job.reason().empty()) {
    outcome.host_failures.push_back({"", ended.job.reason()});
  }
  outcome.strays_killed = ended.report.strays_killed();
  for (const std::string& host : ended.report.unclean_hosts()) {
    outcome.unclean.push_back(
        {host, fmt::format("{}: something of the job may be left there: muster cleanup -H {}", host, host)});
  }
  outcome.ranks = ended.job.size();
  outcome.hosts = ended.hosts;
  outcome.restarts = ended.job.attempt();
  const auto from = wall_time_of(ended.job.has_started() ? ended.job.started() : ended.job.submitted());
  outcome.elapsed = std::max(wall_time_of(ended.job.ended()) - from, base::WallTime::duration(0));
  return outcome;
}

AttachedJob::AttachedJob(base::Loop& loop, Attachment attachment, LogOutput* output, launcherd::NoticeWriter& notices,
                         std::function<void()> finished)
    : loop_(loop),
      attachment_(std::move(attachment)),
      output_(output),
      notices_(notices),
      finished_(std::move(finished)),
      log_client_(attachment_.job.launcher),
      event_client_(attachment_.job.launcher) {}

AttachedJob::~AttachedJob() {
  if (cancel_fd_.valid()) eventfd_write(cancel_fd_.get(), 1);
  log_client_.cancel();
  event_client_.cancel();
  for (std::thread& thread : threads_) thread.join();
}

base::Status AttachedJob::start() {
  cancel_fd_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!cancel_fd_.valid()) return base::errno_error(errno, "attach");
  attachment_.request.set_follow(true);
  MUSTER_ASSIGN_OR_RETURN(std::thread events, base::start_thread([this] { read_events(); }));
  threads_.push_back(std::move(events));
  MUSTER_ASSIGN_OR_RETURN(std::thread output, base::start_thread([this] { read_output(); }));
  threads_.push_back(std::move(output));
  return base::ok_status();
}

void AttachedJob::read_output() {
  base::Status shown;
  // Do not report connection problems here, because read_events() reports each of them.
  Reconnecting reconnecting([](const std::string&) {}, cancel_fd_.get());
  const base::Status status =
      read_logs(log_client_, attachment_.job, attachment_.request, reconnecting, [&](const v1::LogChunk& chunk) {
        shown = output_->show(chunk);
        return shown.ok();
      });
  if (shown.ok()) shown = output_->finish();
  loop_.post(gate_.wrap([this, status, shown] { on_output_end(status, shown); }));
}

void AttachedJob::read_events() {
  Reconnecting reconnecting([this](const std::string& line) { notices_.line(line); }, cancel_fd_.get());
  auto ended = std::make_shared<base::Result<std::optional<EndedJob>>>(
      watch_to_end(event_client_, attachment_.job, 0, reconnecting, [this](const v1::Event& event) {
        report_state(event);
        if (attachment_.on_event) attachment_.on_event(event);
        return true;
      }));
  loop_.post(gate_.wrap([this, ended] { on_events_end(std::move(*ended)); }));
}

// Shows the job's state on the status line until its ranks run, and a line for each change of its hosts or its size.
void AttachedJob::report_state(const v1::Event& event) {
  if (event.has_hang_reported()) {
    notices_.status("");
    const model::HangReport report = proto::hang_report_of(event.hang_reported());
    for (const std::string& line : format_hang(report, {.job = attachment_.job.id})) notices_.line(line);
  }
  if (attachment_.quiet) return;
  if (event.has_generation_began()) {
    notices_.line(base::printable(model::describe(proto::generation_of(event.generation_began()))));
  }
  if (!event.has_job_state_changed()) return;
  const v1::JobStateChanged& change = event.job_state_changed();
  const bool waits = change.state() == v1::JOB_STATE_QUEUED;
  const std::string reason = change.reason().empty() ? "" : ": " + base::printable(change.reason());
  notices_.status(waits ? fmt::format("job {} waits{}", attachment_.job.id, reason) : "");
}

void AttachedJob::on_output_end(const base::Status& status, const base::Status& shown) {
  is_output_over_ = true;
  if (!shown.ok()) {
    own_code_ = shown.code() == base::Code::kCancelled ? kStdoutClosed : kMusterFailed;
    if (shown.code() != base::Code::kCancelled) notices_.line(shown.message());
    if (!attachment_.owns_job) return leave(*own_code_, "");
    stop_job(SIGTERM);
  } else if (!status.ok() && status.code() != base::Code::kCancelled) {
    notices_.line("the rest of the output cannot be read: " + base::printable(status.message()));
  }
  finish_if_over();
}

void AttachedJob::on_events_end(base::Result<std::optional<EndedJob>> ended) {
  if (is_finished_) return;
  are_events_over_ = true;
  if (!ended.ok()) return leave(kMusterFailed, base::printable(ended.status().message()));
  ended_ = std::move(*ended);
  finish_if_over();
}

void AttachedJob::finish_if_over() {
  if (is_finished_ || !is_output_over_ || !are_events_over_) return;
  is_finished_ = true;
  report();
  finished_();
}

void AttachedJob::report() {
  notices_.status("");
  launcherd::JobOutcome outcome = outcome_of(*ended_, stop_signal_);
  outcome.output_failure = output_->what_is_gone();
  if (own_code_ == kStdoutClosed && outcome.root < 0) outcome.cause = StopCause::kStdoutClosed;
  if (outcome.root >= 0) {
    const std::string line = format_root_cause(outcome.ends[static_cast<std::size_t>(outcome.root)]);
    notices_.line(mark_rank(line, attachment_.has_color));
  }
  const v1::LogsRequest& request = attachment_.request;
  const bool gets_all = request.ranks().empty() && !request.has_since() && request.tail_lines() == 0;
  const bool has_shown_stderr = attachment_.shows_stderr && gets_all && stop_signal_ == 0 && !attachment_.quiet;
  for (const std::string& line :
       format_outcome(outcome, attachment_.is_terminal && !attachment_.quiet, has_shown_stderr)) {
    notices_.line(line);
  }
  exit_code_ = own_code_.value_or(outcome.exit_code);
}

void AttachedJob::leave(int exit_code, const std::string& why) {
  if (std::exchange(is_finished_, true)) return;
  notices_.status("");
  if (!why.empty()) notices_.line(why);
  exit_code_ = exit_code;
  finished_();
}

// Runs the question on a thread of its own, so that the loop does not wait for launcherd.
void AttachedJob::ask(std::function<base::Status(ApiClient&)> question) {
  auto asked = base::start_thread([this, question = std::move(question)] {
    ApiClient client(attachment_.job.launcher);
    const base::Status status = question(client);
    // FAILED_PRECONDITION means that the job has already ended, so it is no problem.
    if (!status.ok() && status.code() != base::Code::kFailedPrecondition) {
      notices_.line(base::printable(status.message()));
    }
  });
  if (!asked.ok()) return notices_.line(asked.status().message());
  threads_.push_back(std::move(*asked));
}

void AttachedJob::stop_job(int signo) {
  if (stop_signal_ == 0) stop_signal_ = signo;
  ask([job = attachment_.job.name_there(), at_once = stops_++ > 0](ApiClient& client) {
    v1::KillRequest request;
    request.set_job(job);
    request.set_at_once(at_once);
    return client.kill(request, kPatience);
  });
}

void AttachedJob::on_signal(int signo) {
  if (signo == SIGUSR1 || signo == SIGUSR2) {
    if (!attachment_.owns_job) return;
    return ask([job = attachment_.job.name_there(), signo](ApiClient& client) {
      v1::SignalRequest request;
      request.set_job(job);
      request.set_signal(signo);
      return client.signal(request, kPatience);
    });
  }
  if (attachment_.owns_job) {
    if (stops_ == 0) notices_.line("stopping all ranks; another signal ends them at once");
    return stop_job(signo);
  }
  leave(model::signal_exit_code(signo),
        fmt::format("job {} goes on: muster attach {} shows it again, muster kill {} ends it", attachment_.job.id,
                    attachment_.job.id, attachment_.job.id));
}

}  // namespace muster::cli::verbs
