// RestartingJob, and the options of the agents that it starts itself. restarting_job_pool.cc has what changes if
// another party owns the hosts. Read it in this order: make_runner, start, on_finished, start_again, report_generation;
// then plan_end_signal.
#include "launcherd/run/restarting_job.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "base/signal_name.h"
#include "launcherd/agents/kept_agents.h"
#include "launcherd/agents/own_agents.h"
#include "launcherd/plan/launch_plan.h"
#include "launcherd/run/stop_plan.h"
#include "model/exit_code.h"
#include "model/host_group.h"

namespace muster::launcherd::inline run {
namespace {

OwnAgentsOptions own_agents_options(const model::JobSpec& job, const LaunchOptions& options,
                                    const base::Environment& environment) {
  OwnAgentsOptions own;
  own.job_id = options.job_id;
  own.agent_link = options.agent_link;
  own.fanout = options.fanout;
  // With --agent-link dial there is no other way to connect. Give a lossy network two thirds of the start timeout.
  if (options.agent_link == "dial") own.dial_timeout = std::max(own.dial_timeout, job.start_timeout * 2 / 3);
  own.contain = options.contain;
  own.lease = job.lease;
  own.start_timeout = job.start_timeout;
  own.session_root = environment.get("MUSTER_TMPDIR").value_or("");
  own.verbose = options.verbose;
  own.wants_load = options.wants_load;
  own.without_gpus = !gives_gpus(job);
  return own;
}

// True if the job may have a second generation. A live job changes its ranks in one generation.
bool may_start_again(const model::JobSpec& job) {
  return !job.live && (job.max_restarts > 0 || job.failure.on_failure != model::OnFailure::kFail);
}

RestartingJob::MakeAgents own_agents_of(base::Loop& loop, const JobSetup& setup,
                                        RestartingJob::BootstrapOf bootstrap_of) {
  OwnAgentsOptions own = own_agents_options(setup.job, setup.options, setup.environment);
  // An agent that is linked through ssh cannot be kept.
  if (may_start_again(setup.job) && own.agent_link != "ssh") {
    const auto kept = std::make_shared<KeptAgents>(loop, std::move(own), std::move(bootstrap_of));
    return [kept](int attempt) { return kept->of_attempt(attempt); };
  }
  return [&loop, bootstrap_of = std::move(bootstrap_of), own = std::move(own)](int attempt) mutable {
    own.attempt = attempt;
    return std::make_shared<OwnAgents>(loop, own, bootstrap_of(attempt));
  };
}

// Returns the outcome of a job whose stop came after the end of its ranks.
JobOutcome stopped_outcome(JobOutcome outcome, StopCause by) {
  StopPlan stop({}, StopCause::kNone, false);
  stop.begin(by, false);
  outcome.cause = by;
  outcome.exit_code = stop.exit_code(std::nullopt);
  return outcome;
}

}  // namespace

std::string short_reason(const HostFailure& failure) {
  return model::short_reason(failure.message, failure.host);
}

// A failed host may be a member again, after its cool-down. It may have lost its files then.
bool keeps_hosts(const JobOutcome& before, const NextGeneration& next) {
  return next.added.empty() && next.lost.empty() && before.host_failures.empty() && before.unclean.empty();
}

std::optional<GenerationEnd> restartable_end(const JobOutcome& outcome, bool may_change_hosts) {
  const bool is_host_at_fault = outcome.cause == StopCause::kHostFailed;
  if (outcome.cause != StopCause::kNone && outcome.cause != StopCause::kPolicy && !is_host_at_fault)
    return std::nullopt;
  GenerationEnd end;
  for (const std::vector<HostFailure>* failures : {&outcome.host_failures, &outcome.unclean}) {
    for (const HostFailure& failure : *failures) {
      if (failure.host.empty()) return std::nullopt;  // the failure is about all hosts
      if (failure.is_cut_short) continue;
      if (failure.keeps_processes) end.never_back.insert(failure.host);
      if (failures == &outcome.unclean) end.unsearched.insert(failure.host);
      if (!end.reasons.emplace(failure.host, short_reason(failure)).second) continue;
      end.bad_hosts.push_back(failure.host);
    }
  }
  const model::RankEnd* const root = outcome.root < 0 ? nullptr : &outcome.ends[static_cast<std::size_t>(outcome.root)];
  if (outcome.exit_code == 0) return std::nullopt;
  if (root != nullptr && root->kind == model::EndKind::kExited && root->exit_code == model::kNeverAgain) {
    return std::nullopt;
  }
  // Do not start again where processes may be left, because two generations must never run on one host.
  if (!end.bad_hosts.empty()) return may_change_hosts ? std::optional(end) : std::nullopt;
  if (is_host_at_fault || root == nullptr) return std::nullopt;
  if (root->kind != model::EndKind::kExited && root->kind != model::EndKind::kSignalled) return std::nullopt;
  end.failed_host = root->host;
  return end;
}

RestartingJob::RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, MakeAgents make_agents)
    : loop_(loop),
      clock_(clock),
      job_(std::move(setup.job)),
      placement_(std::move(setup.placement)),
      options_(std::move(setup.options)),
      planner_(job_, placement_, options_.attempt),
      environment_(std::move(setup.environment)),
      make_agents_(std::move(make_agents)),
      take_progress_(std::move(setup.take_progress)),
      sink_(setup.sink),
      observer_(setup.observer),
      timeout_(job_.timeout),
      pool_(setup.hosts),
      resumed_(std::move(setup.resumed_generation)) {
  if (resumed_ != nullptr) planner_.restore(resumed_->state);
  options_.restarts = planner_.counted();
  make_runner();
}

RestartingJob::RestartingJob(base::Loop& loop, const base::Clock& clock, JobSetup setup, BootstrapOf bootstrap_of)
    : RestartingJob(loop, clock, setup, own_agents_of(loop, setup, std::move(bootstrap_of))) {}

RestartingJob::~RestartingJob() = default;

void RestartingJob::make_runner() {
  JobObserver* const between = this;
  // launcherd's queue chooses the hosts of its jobs (docs/adr/0066), and later generations have a policy of their own.
  const bool may_leave_out = job_.min_hosts > 0 && pool_ == nullptr && options_.attempt == 0;
  options_.start_without = nullptr;
  options_.reserve.clear();
  if (may_leave_out) {
    options_.start_without = [this](const GenerationEnd& end) { return start_without(end); };
    options_.reserve = planner_.spares();
  }
  runner_ =
      std::make_unique<JobRunner>(loop_, clock_, JobSetup{job_, placement_, options_, environment_, sink_, between},
                                  make_agents_(options_.attempt));
  runner_->set_input(input_);
  if (window_) runner_->resize_terminal(window_->first, window_->second);
}

// Chooses the hosts of the first generation from those that are up.
base::Result<NextGeneration> RestartingJob::start_without(const GenerationEnd& end) {
  MUSTER_ASSIGN_OR_RETURN(NextGeneration next, planner_.start_without(end, job_.placement.np > 0));
  placement_ = next.placement;
  job_.placement = next.request;
  model::HostsLeftOut left_out{.hosts = end.bad_hosts, .reasons = {}};
  for (const std::string& host : end.bad_hosts) left_out.reasons.push_back(end.reasons.at(host));
  observer_->on_event(left_out);
  observer_->on_event(model::JobStarting{options_.job_id, placement_});
  if (!next.added.empty()) {
    const bool is_one = next.added.size() == 1;
    observer_->on_remark(fmt::format("{} {} the place of hosts that are not up", model::short_host_list(next.added),
                                     is_one ? "takes" : "take"));
  }
  return next;
}

void RestartingJob::set_input(InputSource* source) {
  input_ = source;
  runner_->set_input(source);
}

void RestartingJob::resize_terminal(int rows, int columns) {
  window_ = {rows, columns};
  runner_->resize_terminal(rows, columns);
}

base::Status RestartingJob::start() {
  started_at_ = clock_.now();
  is_stopped_ = options_.resumed_stop != StopCause::kNone && options_.resumed_stop != StopCause::kResize;
  plan_end_signal();
  if (resumed_ != nullptr && resumed_->resize_to) {
    planner_.resize(*resumed_->resize_to);
    resize_hosts_ = resumed_->resize_hosts;
    resize_reason_ = resumed_->resize_reason;
    is_resizing_ = true;
  }
  if (resumed_ == nullptr || !resumed_->wait) return runner_->start();
  resume_wait(*resumed_->wait);
  return base::ok_status();
}

// Schedules JobSpec::end_signal before the end of --timeout or LaunchOptions::ends_at, whichever is earlier.
void RestartingJob::plan_end_signal() {
  if (!job_.end_signal) return;
  std::optional<base::Duration> left;
  if (timeout_) left = *timeout_;
  if (options_.ends_at) {
    const auto until = std::chrono::duration_cast<base::Duration>(*options_.ends_at - clock_.wall());
    left = left ? std::min(*left, until) : until;
  }
  if (!left) {
    if (pool_ != nullptr && model::may_change_hosts(job_.failure)) return;  // begin_resize() sends it
    observer_->on_warning(
        "--signal: the job has no known time limit, so no signal will be sent; set a limit with --timeout");
    return;
  }
  const base::Duration wait = std::max<base::Duration>(*left - job_.end_signal->ahead, base::Duration::zero());
  end_signal_timer_ = loop_.after(wait, [this] {
    is_end_near_ = true;
    // If ranks are still being started, wait: the signal would end ranks that have no handler for it yet.
    if (is_running_) send_end_signal();
  });
}

void RestartingJob::send_end_signal() {
  if (is_stopped_) return;
  observer_->on_warning(fmt::format("{} to all ranks: the job's time is over in at most {} s",
                                    base::signal_name(job_.end_signal->signo),
                                    std::chrono::ceil<std::chrono::seconds>(job_.end_signal->ahead).count()));
  runner_->signal_ranks(job_.end_signal->signo, true);
}

void RestartingJob::on_running() {
  is_running_ = true;
  observer_->on_running();
  if (last_failed_at_ && model::may_change_hosts(job_.failure)) {
    constexpr double kMillisPerSecond = 1000;
    const auto taken = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - *last_failed_at_);
    observer_->on_remark(fmt::format("generation {} runs, {:.2f} s after the failure", options_.attempt,
                                     static_cast<double>(taken.count()) / kMillisPerSecond));
  }
  if (last_failed_at_ && pool_ != nullptr) pool_->runs_again(clock_.now() - *last_failed_at_);
  last_failed_at_.reset();
  // Every attempt gets the signal. Ranks of a resumed job may have it already; their agents remember that.
  if (is_end_near_) send_end_signal();
  if (is_resizing_ && !is_ending_ && job_.end_signal) give_notice();  // an earlier launcherd began this resize
}

void RestartingJob::on_first_collective(int generation) {
  if (!awaits_collective_ || generation != options_.attempt) return;
  const auto elapsed = clock_.now() - *std::exchange(awaits_collective_, std::nullopt);
  observer_->on_event(model::FirstCollectiveEnded{
      .generation = generation, .elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed)});
}

void RestartingJob::stop(StopCause cause) {
  if (!is_stopped_) stopped_by_ = cause;
  is_stopped_ = true;
  resize_timer_.cancel();
  if (!failed_) {
    runner_->stop(cause);
    return;
  }
  // The job waits between two attempts, so report the failure of the last attempt. A job of a pool may wait for long,
  // so its end is the stop's.
  again_.cancel();
  gate_.close();
  JobOutcome outcome = *std::exchange(failed_, std::nullopt);
  finish(pool_ == nullptr ? outcome : stopped_outcome(std::move(outcome), stopped_by_));
}

void RestartingJob::on_progress(int up, int total, const std::vector<std::string>& waiting) {
  observer_->on_progress(up, total, waiting);
}

void RestartingJob::on_root_cause(const model::RankEnd& root) {
  if (!failed_at_) failed_at_ = clock_.now();
  observer_->on_root_cause(root);
}

void RestartingJob::on_event(const model::JobEvent& event) {
  if (std::holds_alternative<model::JobStopping>(event)) {
    is_ending_ = true;
    if (!failed_at_) failed_at_ = clock_.now();
  }
  observer_->on_event(event);
}

void RestartingJob::on_finished(const JobOutcome& outcome) {
  // A stop during the end of a failed attempt does not change the cause, but it prevents a restart.
  if (is_stopped_) return finish(outcome);
  auto end = is_resizing_ ? resized_end(outcome) : restartable_end(outcome, model::may_change_hosts(job_.failure));
  if (!end) return finish(outcome);
  const bool has_line = take_progress_ && take_progress_();
  end->has_progress = has_line || has_progress_;
  end->at = clock_.wall();
  if (pool_ != nullptr) {
    failed_ = outcome;
    end_ = std::move(end);
    return plan_next();
  }
  planner_.set_time(end->at);
  auto next = planner_.next(*end);
  if (!next.ok()) {
    if (job_.failure.on_failure != model::OnFailure::kFail) {
      observer_->on_warning(fmt::format("the job does not start again: {}", next.status().message()));
    }
    return finish(outcome);
  }
  failed_ = outcome;
  next_ = std::move(*next);
  // The runner is calling this function, so replace the runner later.
  again_ = loop_.after(base::Duration::zero(), [this] { start_again(); });
}

void RestartingJob::start_again() {
  count_generation();
  runner_.reset();  // its output is written now, so the observers may change where output goes
  report_generation(*failed_, *next_);
  launch_generation();
}

void RestartingJob::count_generation() {
  ++options_.attempt;
  options_.restarts = planner_.counted();
  options_.is_staged = is_running_;  // ranks ran, so the files were there
  is_running_ = false;
}

void RestartingJob::launch_generation() {
  runner_.reset();
  JobOutcome before = *std::exchange(failed_, std::nullopt);
  const NextGeneration next = *std::exchange(next_, std::nullopt);
  if (timeout_) {
    const auto spent = std::chrono::duration_cast<std::chrono::milliseconds>(clock_.now() - started_at_);
    job_.timeout = std::max(*timeout_ - spent, std::chrono::milliseconds(1));
  }
  // Hosts that are new to the job need the files; all others are only compared.
  options_.is_staged = options_.is_staged && keeps_hosts(before, next);
  options_.resumes = false;
  is_ending_ = false;
  has_progress_ = false;
  keep_leftovers(before);
  options_.resumed_stop = StopCause::kNone;
  options_.resumed_first_of.clear();
  last_failed_at_ = std::exchange(failed_at_, std::nullopt);
  awaits_collective_ = last_failed_at_;
  placement_ = next.placement;
  if (!next.request.hosts.empty()) job_.placement = next.request;  // entries that are one host are placed again by it
  make_runner();
  if (const base::Status started = runner_->start(); !started.ok()) {
    observer_->on_warning(fmt::format("the restart failed: {}", started.message()));
    finish(before);
  }
}

void RestartingJob::report_generation(const JobOutcome& before, const NextGeneration& next) {
  const model::RankEnd* const root = before.root < 0 ? nullptr : &before.ends[static_cast<std::size_t>(before.root)];
  const bool is_same = keeps_hosts(before, next) && next.placement.size == placement_.size;
  if (root != nullptr && is_same && !is_resizing_) {
    observer_->on_warning(
        next.is_counted
            ? fmt::format("restart {} of {}: the whole job starts again", options_.restarts, job_.max_restarts)
            : fmt::format("the whole job starts again; it had made progress, so {} of {} restarts stay used",
                          options_.restarts, job_.max_restarts));
    observer_->on_event(model::JobRestarting{options_.attempt, root->rank, model::describe(*root)});
    return;
  }
  std::string reason;
  if (is_resizing_) {
    reason = resize_reason_.text.empty() ? "resized" : resize_reason_.text;
  } else if (!before.host_failures.empty()) {
    reason = short_reason(before.host_failures.front());
  } else if (!before.unclean.empty()) {
    reason = short_reason(before.unclean.front());
  } else if (root != nullptr) {
    reason = fmt::format("rank {} on {} failed twice in a row: {}", root->rank, root->host, model::describe(*root));
  }
  const auto elapsed = clock_.now() - failed_at_.value_or(clock_.now());
  observer_->on_event(model::GenerationBegan{.number = options_.attempt,
                                             .from = placement_.size,
                                             .to = next.placement.size,
                                             .added = next.added,
                                             .lost = next.lost,
                                             .reason = std::move(reason),
                                             .elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(elapsed),
                                             .placement = next.placement,
                                             .failed = planner_.failed()});
}

// The outcome of the whole job names what failed attempts have left behind.
void RestartingJob::keep_leftovers(JobOutcome& outcome) {
  std::ranges::move(std::exchange(outcome.unclean, {}), std::back_inserter(unclean_));
  strays_killed_ += std::exchange(outcome.strays_killed, 0);
}

void RestartingJob::finish(JobOutcome outcome) {
  resize_timer_.cancel();
  wait_timer_.cancel();
  return_timer_.cancel();
  outcome.restarts = options_.attempt;
  // A stop that came while resize() ended the generation did not change the runner's cause.
  if (outcome.cause == StopCause::kResize && is_stopped_) outcome = stopped_outcome(std::move(outcome), stopped_by_);
  outcome.elapsed = clock_.now() - started_at_;
  outcome.unclean.insert(outcome.unclean.end(), unclean_.begin(), unclean_.end());
  outcome.strays_killed += strays_killed_;
  observer_->on_finished(outcome);
}

}  // namespace muster::launcherd::run
