// The part of JobRunner's core that ends a job: it stops ranks, loses and sweeps hosts, and makes the outcome.
// Read it in this order: stop, begin_stop, send_stop, agent_gone, host_lost, maybe_finish, finish.
#include <algorithm>

#include "base/strings.h"
#include "launcherd/run/alike_ranks.h"
#include "launcherd/run/job_core.h"

namespace muster::launcherd::inline run {

void JobRunner::Core::stop(StopCause cause) {
  if (is_finished()) return;
  if (options_.resumes && is_before_launch(phase_) && may_have_ranks()) {
    keep_early_stop(cause);
    return;
  }
  if (!is_ending(phase_)) {
    begin_stop(cause, job_.kill_grace, "the job was stopped");
    return;
  }
  // If the user repeats a stop that is under way, kill now, but keep the first cause.
  if (phase_ == JobPhase::kKilling) {
    if (options_.may_leave) finish(RunEvent::kLeave);
    return;
  }
  advance(RunEvent::kKill);
  send_stop(std::chrono::milliseconds(0), "killed at once", true);
  limit_stop(std::chrono::milliseconds(0), false);
  maybe_finish();
}

// Returns whether ranks of a job that was resumed after a launcherd restart may still run.
bool JobRunner::Core::may_have_ranks() const {
  return std::ranges::any_of(hosts_, [](const JobHost& host) { return host.has_launched || is_waiting(host.phase); });
}

// Delays the stop of a resumed job. Its hosts come back one by one. The ranks are stopped when all are back, or when
// the time is over.
void JobRunner::Core::keep_early_stop(StopCause cause) {
  const auto patience = stop_.keep_early(cause);
  if (!patience) return;
  const base::Duration left = std::max(start_deadline_ - clock_.now(), base::Duration::zero());
  // Start both timers. PhaseTimers ignores kStart while shares are decided, and kEarlyStop in all other phases.
  for (const JobTimer timer : {JobTimer::kStart, JobTimer::kEarlyStop}) {
    timers_.start(timer, std::min<base::Duration>(*patience, left), [this] { start_timed_out(); });
  }
}

void JobRunner::Core::begin_stop(StopCause cause, std::chrono::milliseconds grace, const std::string& reason) {
  const RunAction action = advance(RunEvent::kStop);
  if (action == RunAction::kIgnore) return;
  const bool ends_start = action == RunAction::kEndStart;
  stop_.begin(cause, ends_start);
  if (live_ != nullptr) live_->stop();
  release_live_hosts();
  observer_->on_event(model::JobStopping{reason});
  if (feed_ != nullptr) feed_->close();
  staging_.reset();
  if (ends_start) {
    if (!end_start()) return maybe_finish();
    grace = stop_.early_grace();
  }
  if (suspension_.is_on()) suspend(false, nullptr);
  // Skip the grace period if no rank is running.
  const bool is_none_left = live_ != nullptr ? !live_->members().is_any_living() : ends_.all_ended();
  const std::chrono::milliseconds given = is_none_left ? std::chrono::milliseconds(0) : grace;
  send_stop(given, reason, stop_.cuts_gpu_wait());
  limit_stop(given, true);
  maybe_finish();
}

// Ends the start of all hosts, because the job is being stopped. Returns whether ranks that an earlier launcherd
// started must be stopped.
bool JobRunner::Core::end_start() {
  agents_->cancel_start();
  for (JobHost& host : hosts_) give_up_start(host);
  if (!hosts_.is_any_in(HostPhase::kLaunched)) return false;
  for (JobHost& host : hosts_) replay_history(host);
  if (stop_.is_early_at_once()) advance(RunEvent::kKill);
  return !is_finished();
}

// Ends the start of one host. If an earlier launcherd started ranks on the host, assigns them to it, so that they are
// stopped.
void JobRunner::Core::give_up_start(JobHost& host) {
  if (host.has_launched && (host.phase == HostPhase::kUp || host.phase == HostPhase::kPrepared))
    return assign_ranks(host);
  const HostPhase before = host.phase;
  switch (host.phase.apply(HostEvent::kStartEnded)) {
    case HostAction::kDrop:
      // Report this host only if another host's failure cut its start short.
      if (stop_.cause() == StopCause::kHostFailed && before == HostPhase::kBootstrapping) {
        host_failures_.push_back(
            {.host = host.name,
             .message = fmt::format("{}: the launcher was still connecting when another host's failure ended the start",
                                    host.name),
             .is_cut_short = true});
      }
      if (options_.resumes) unclean_.push_back({host.name, why_not_in_time(host)});
      agents_->drop(host.agent);
      break;
    case HostAction::kLeave:
      agents_->leave(host.agent);
      break;
    default:
      break;
  }
}

// Sends the stop to all agents with running ranks. An agent without a rank may still wait until GPUs release memory.
// Only the user may cut that wait short (`is_requested`).
void JobRunner::Core::send_stop(std::chrono::milliseconds grace, const std::string& reason, bool is_requested) {
  peer_failures_.flush();
  for (const JobHost& host : hosts_) {
    if (host.phase != HostPhase::kLaunched) continue;
    const bool is_any_left = std::ranges::any_of(host.ranks, [&](int rank) { return may_run(rank); });
    if (!is_any_left && !is_requested) continue;
    v1::LauncherMessage message;
    message.mutable_stop_ranks()->set_grace_ms(grace.count());
    message.mutable_stop_ranks()->set_reason(reason);
    agents_->send(host.agent, std::move(message));
  }
}

// Limits how long agents may take to confirm the stop.
void JobRunner::Core::limit_stop(std::chrono::milliseconds grace, bool may_wait) {
  const bool waits = may_wait && gives_gpus(job_) && std::ranges::any_of(hosts_, [](const JobHost& host) {
                       return host.phase == HostPhase::kLaunched && may_wait_for_gpus(host.facts.hello);
                     });
  timers_.start(JobTimer::kStop, stop_.set_limit(grace, waits), [this] { stop_overdue(); });
}

void JobRunner::Core::stop_overdue() {
  for (JobHost& host : hosts_) {
    handle(host, HostEvent::kStopOverdue,
           fmt::format("{}: did not confirm within {} s that the ranks are gone", host.name,
                       std::chrono::duration_cast<std::chrono::seconds>(stop_.limit()).count()));
  }
  maybe_finish();
}

void JobRunner::Core::signal_ranks(int signo, bool is_once) {
  for (const JobHost& host : hosts_) {
    if (host.phase != HostPhase::kLaunched) continue;
    v1::LauncherMessage message;
    message.mutable_signal_ranks()->set_signal(signo);
    message.mutable_signal_ranks()->set_once(is_once);
    agents_->send(host.agent, std::move(message));
  }
}

void JobRunner::Core::suspend(bool on, base::Loop::Task done) {
  for (const JobHost& host : hosts_) {
    if (!on && host.phase == HostPhase::kLaunched) liveness_.grant(host, kRedialTime);
  }
  suspension_.order(on, std::move(done));
}

// Moves the host to its next phase and performs the action. `why` is the message for the user, which names the host.
void JobRunner::Core::handle(JobHost& host, HostEvent event, const std::string& why) {
  const HostAction action = host.phase.apply(event);
  switch (action) {
    case HostAction::kFailStart:
      return host_start_failed(host, why);
    case HostAction::kDrop:
      agents_->drop(host.agent);
      return maybe_finish();
    case HostAction::kReadRest:
      return agents_->output_ends(host.agent);
    case HostAction::kLoseOutput:
      return output_lost(host, why);
    case HostAction::kSweep:
    case HostAction::kLoseSilent:
    case HostAction::kLoseUnreadable:
      return host_lost(host, action, why);
    case HostAction::kNone:
    case HostAction::kIgnore:
    case HostAction::kReportLate:  // start_timed_out() performs it, for all hosts together
    case HostAction::kLeave:       // give_up_start() performs it
      return;
  }
}

void JobRunner::Core::agent_gone(int agent, const base::Status& status) {
  if (is_finished()) return;
  JobHost& host = hosts_.at(agent);
  std::string why;
  if (is_waiting(host.phase)) {
    why = fmt::format(
        "{}: the agent started and ended before it reported ({}): see its messages above, or run with --verbose",
        host.name, status.message());
  } else if (host.phase == HostPhase::kLaunched) {
    why = fmt::format("{}: the agent there ended ({}): was it killed?", host.name, status.message());
  } else {
    why = fmt::format("{}: the agent ended while other hosts were coming up ({})", host.name, status.message());
  }
  handle(host, HostEvent::kAgentGone, why);
}

void JobRunner::Core::agent_unreadable(int agent) {
  JobHost& host = hosts_.at(agent);
  if (is_finished() || (host.phase == HostPhase::kDraining && is_output_skipped())) return;
  handle(host, HostEvent::kUnreadable,
         fmt::format("{}: a message on the control connection cannot be read, not even when it is sent again, so the "
                     "job drops this host; this is a fault of Muster: report it with the command and what is special "
                     "about its output",
                     host.name));
}

// Reports a lost host and the ends of its ranks. `how` says what the launcher can do about the ranks.
void JobRunner::Core::host_lost(JobHost& host, HostAction how, const std::string& why) {
  peer_failures_.unfollow(host.agent);
  stack_requests_.lost(host.agent);
  exec_calls_.lost(host.agent);
  evidence_requests_.lost(host.agent);
  agents_->drop(host.agent);
  worlds_.host_left(host);
  if (live_ != nullptr) return lose_live_host(host, how, why);
  host_failures_.push_back({host.name, why});
  for (const int rank : host.ranks) {
    if (!may_run(rank)) continue;
    model::RankEnd end;
    end.rank = rank;
    end.host = host.name;
    end.kind = model::EndKind::kHostLost;
    end.detail = why;
    end.at = clock_.now();
    observer_->on_event(end);
    report_to_peers(end);
    if (feed_ != nullptr) feed_->rank_over(rank);
    ends_.add(std::move(end), clock_.now());
  }
  end_lost_processes(host, how);
  begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host was lost");
  maybe_finish();
}

// Does what the launcher can about processes on a lost host.
void JobRunner::Core::end_lost_processes(JobHost& host, HostAction how) {
  if (how == HostAction::kSweep) {
    sweep(host);
  } else if (how == HostAction::kLoseSilent) {
    unclean_.push_back({host.name, fmt::format("{}: not reachable, so it is not known whether processes of the job "
                                               "are left there",
                                               host.name)});
  } else {
    unclean_.push_back({host.name, fmt::format("{}: its agent was sent the order to end the ranks, but cannot confirm "
                                               "their end: check the host for processes of the job",
                                               host.name)});
  }
}

// Searches a host whose agent and warden may both be dead. The host itself still answers, so a log-in works.
void JobRunner::Core::sweep(JobHost& host) {
  agents_->sweep(host.agent, [this, agent = host.agent](const base::Result<CommandResult>& result) {
    if (!is_finished()) swept(agent, result);
  });
}

void JobRunner::Core::swept(int agent, const base::Result<CommandResult>& result) {
  JobHost& host = hosts_.at(agent);
  host.phase.apply(HostEvent::kSwept);
  if (!result.ok()) {
    unclean_.push_back({host.name, fmt::format("{}: could not be searched for leftover processes: {}", host.name,
                                               result.status().message())});
  } else if (result->exit_status != 0) {
    unclean_.push_back({host.name, fmt::format("{}: the search for leftover processes failed: {}", host.name,
                                               base::printable(base::trim(result->errors)))});
  } else {
    // The output has one line for each killed process.
    int killed = 0;
    for (const std::string_view line : base::split(base::trim(result->output), '\n')) {
      if (line.empty()) continue;
      ++killed;
      add_stray_line(fmt::format("{}: {}", host.name, base::printable(line)));
    }
    strays_killed_ += killed;
    observer_->on_note(fmt::format("{}: searched for leftover processes, {} killed", host.name, killed));
  }
  maybe_finish();
}

void JobRunner::Core::output_complete(int agent) {
  if (is_finished()) return;
  JobHost& host = hosts_.at(agent);
  host.output_complete = true;
  host.phase.apply(HostEvent::kOutputComplete);
  maybe_finish();
}

void JobRunner::Core::output_cut(int agent) {
  JobHost& host = hosts_.at(agent);
  if (is_finished()) return;
  handle(host, HostEvent::kOutputCut,
         fmt::format("{}: the agent there ended before it had sent all output of the ranks there, which had ended: the "
                     "end of their output may be missing: was the agent killed?",
                     host.name));
}

void JobRunner::Core::output_failed(const base::Status& status) {
  if (is_finished()) return;
  const bool closed = status.code() == base::Code::kCancelled;
  // Ignore a closed stderr (2>&-), and drop its text. A closed stdout stops the job.
  if (closed && status.message().starts_with("stderr")) return;
  if (!closed && output_failure_.empty()) output_failure_ = status.message();
  begin_stop(closed ? StopCause::kStdoutClosed : StopCause::kOutputFailed, job_.kill_grace, "output cannot be written");
}

// If the user interrupted or killed the job, the launcher does not wait for output until all processes are gone.
bool JobRunner::Core::is_output_skipped() const {
  return (phase_ == JobPhase::kKilling || stop_.is_from_outside()) && !timers_.is_armed(JobTimer::kOutput);
}

void JobRunner::Core::maybe_finish() {
  if (is_finished()) return;
  live_changed();
  start_waiting_hosts();
  if (!hosts_.are_without_processes()) return;
  if (!hosts_.is_any_in(HostPhase::kDraining)) return finish(RunEvent::kHostsGone);
  if (!is_output_skipped()) return;
  timers_.start(JobTimer::kOutput, kOutputAfterInterrupt, [this] { finish(RunEvent::kHostsGone); });
}

JobOutcome JobRunner::Core::make_outcome() {
  JobOutcome outcome;
  outcome.cause = stop_.cause();
  outcome.ends = ends_.ends();
  outcome.root = ends_.root_index();
  const auto root = ends_.root();
  outcome.exit_code = stop_.exit_code(root);
  if (root) outcome.stderr_tail = stderr_tails_[root->rank];
  outcome.alike_ranks = alike_ranks(outcome.ends, outcome.root, stderr_tails_);
  outcome.host_failures = host_failures_;
  outcome.output_failure = output_failure_;
  outcome.strays_killed = strays_killed_;
  outcome.stray_lines = stray_lines_;
  outcome.unclean = unclean_;
  outcome.ranks = ends_.size();
  outcome.hosts = static_cast<int>(placement_.hosts.size());
  outcome.elapsed = clock_.now() - started_at_;
  return outcome;
}

void JobRunner::Core::finish(RunEvent event) {
  maybe_name_root_cause();
  if (advance(event) != RunAction::kFinish) return;
  host_warnings_.flush();
  if (feed_ != nullptr) feed_->close();
  stack_requests_.close();
  exec_calls_.close();
  evidence_requests_.close();
  for (const JobHost& host : hosts_) {
    if (host.phase == HostPhase::kLaunched) {
      unclean_.push_back(
          {host.name,
           fmt::format(
               "{}: the launcher left before the agent there had ended the ranks; the agent ends them by itself now",
               host.name)});
    }
    agents_->leave(host.agent);
  }
  // A pending Ctrl-Z must still stop the launcher, because the launcher may have another attempt to run.
  suspension_.finish();
  if (const auto late = lateness_.late_host()) observer_->on_event(*late);
  observer_->on_finished(make_outcome());
}

JobRunner::JobRunner(base::Loop& loop, const base::Clock& clock, JobSetup setup, std::shared_ptr<JobAgents> agents)
    : core_(std::make_unique<Core>(loop, clock, std::move(setup), std::move(agents))) {}

JobRunner::~JobRunner() = default;

base::Status JobRunner::start() {
  return core_->start();
}
void JobRunner::stop(StopCause cause) {
  core_->stop(cause);
}
void JobRunner::set_input(InputSource* source) {
  core_->set_input(source);
}
void JobRunner::resize_terminal(int rows, int columns) {
  core_->resize_terminal(rows, columns);
}
void JobRunner::signal_ranks(int signo, bool is_once) {
  core_->signal_ranks(signo, is_once);
}
void JobRunner::suspend(bool on, base::Loop::Task done) {
  core_->suspend(on, std::move(done));
}
base::Status JobRunner::stacks(const StackQuery& query, std::function<void(v1::ProcessStack)> on_process,
                               base::Loop::Task done) {
  return core_->stacks(query, std::move(on_process), std::move(done));
}
base::Result<ExecControls> JobRunner::exec(const v1::ExecRequest& first, ExecCaller caller) {
  return core_->exec(first, std::move(caller));
}
base::Status JobRunner::explain_hang(std::function<void(const model::HangReport&)> done) {
  return core_->explain_hang(std::move(done));
}
base::Status JobRunner::set_live_hosts(std::vector<model::HostSpec> hosts) {
  return core_->set_live_hosts(std::move(hosts));
}
base::Status JobRunner::set_live_size(int min_ranks, std::optional<int> max_ranks) {
  return core_->set_live_size(min_ranks, max_ranks);
}

}  // namespace muster::launcherd::run
