// RestartingJob with hosts of another party (JobSetup::hosts): how its next generation is planned, stored and begun,
// and how its size is changed. Read it in this order: plan_next, commit, wait_for_hosts, hosts_changed, resume_wait;
// then resize, begin_resize, could_grow_to.
#include <algorithm>
#include <utility>

#include "launcherd/run/restarting_job.h"
#include "model/exit_code.h"

namespace muster::launcherd::inline run {
namespace {

using base::Code;

// Until the job waits, the slots of its failed hosts count as its own, so the pool does not offer them.
void add_failed_hosts(const model::Placement& own, const std::vector<std::string>& failed,
                      std::vector<model::HostSpec>& offers) {
  for (const model::PlacedHost& placed : own.hosts) {
    if (std::ranges::find(failed, placed.host.name) == failed.end()) continue;
    const int ranks = static_cast<int>(placed.ranks.size());
    const auto found = std::ranges::find(offers, placed.host.name, &model::HostSpec::name);
    if (found != offers.end()) {
      found->slots = found->slots.value_or(0) + ranks;
      continue;
    }
    offers.push_back(placed.host);
    offers.back().slots = ranks;
  }
}

// Returns why the generation ended, as one phrase for people.
std::string reason_of_end(const JobOutcome& outcome, bool is_resize, const ResizeReason& resize) {
  if (is_resize) return resize.text.empty() ? "resized" : resize.text;
  if (!outcome.host_failures.empty()) return short_reason(outcome.host_failures.front());
  if (!outcome.unclean.empty()) return short_reason(outcome.unclean.front());
  if (outcome.root < 0) return "";
  const model::RankEnd& root = outcome.ends[static_cast<std::size_t>(outcome.root)];
  return fmt::format("rank {} on {}: {}", root.rank, root.host, model::describe(root));
}

// Returns an outcome for a generation of which only the stored wait is left.
JobOutcome outcome_of(const GenerationWait& wait) {
  JobOutcome outcome;
  outcome.exit_code = model::kMusterFailed;
  outcome.cause = StopCause::kHostFailed;
  const std::string host = wait.end.bad_hosts.empty() ? wait.end.failed_host : wait.end.bad_hosts.front();
  outcome.host_failures.push_back({host, wait.reason.empty() ? "the last generation ended" : wait.reason});
  return outcome;
}

bool names_host(const std::vector<model::HostSpec>& hosts, const std::string& name) {
  return std::ranges::find(hosts, name, &model::HostSpec::name) != hosts.end();
}

}  // namespace

std::optional<GenerationEnd> resized_end(const JobOutcome& outcome) {
  if (outcome.cause != StopCause::kNone && outcome.cause != StopCause::kPolicy && outcome.cause != StopCause::kResize &&
      outcome.cause != StopCause::kHostFailed) {
    return std::nullopt;
  }
  GenerationEnd end{.is_resize = true};
  for (const std::vector<HostFailure>* failures : {&outcome.host_failures, &outcome.unclean}) {
    for (const HostFailure& failure : *failures) {
      if (failure.host.empty()) return std::nullopt;  // the failure is about all hosts
      if (failure.keeps_processes) end.never_back.insert(failure.host);
      if (failures == &outcome.unclean) end.unsearched.insert(failure.host);
      if (failure.is_cut_short || !end.reasons.emplace(failure.host, short_reason(failure)).second) continue;
      end.bad_hosts.push_back(failure.host);
    }
  }
  const bool never_again = std::ranges::any_of(outcome.ends, [](const model::RankEnd& rank) {
    return rank.kind == model::EndKind::kExited && rank.exit_code == model::kNeverAgain;
  });
  return never_again ? std::nullopt : std::optional(end);
}

// The hosts of a resize come first, each with no more slots than it names. Then come the hosts that the job has.
std::vector<model::HostSpec> RestartingJob::offers(Availability when) const {
  std::vector<model::HostSpec> all = pool_->offers(when);
  std::vector<model::HostSpec> sorted;
  for (const model::HostSpec& first : resize_hosts_) {
    const auto found = std::ranges::find(all, first.name, &model::HostSpec::name);
    if (found == all.end()) continue;
    sorted.push_back(*found);
    if (first.slots) sorted.back().slots = std::min(*first.slots, found->slots.value_or(*first.slots));
  }
  std::erase_if(all, [&](const model::HostSpec& host) { return names_host(resize_hosts_, host.name); });
  std::stable_partition(all.begin(), all.end(), [this](const model::HostSpec& host) {
    return std::ranges::any_of(placement_.hosts,
                               [&](const model::PlacedHost& placed) { return placed.host.name == host.name; });
  });
  sorted.insert(sorted.end(), all.begin(), all.end());
  return sorted;
}

void RestartingJob::plan_next() {
  GenerationPlanner planned = planner_;
  planned.set_time(clock_.wall());
  planned.offer(offers(Availability::kNow));
  auto next = planned.next(*end_);
  if (next.ok()) return commit(std::move(planned), *std::move(next));
  if (next.status().code() == Code::kResourceExhausted) {
    GenerationPlanner at_best = planner_;
    std::vector<model::HostSpec> best = offers(Availability::kAtBest);
    if (job_.failure.failed_host_cooldown) {
      at_best.set_time(base::WallTime::max());
      if (!is_waiting_) add_failed_hosts(placement_, end_->bad_hosts, best);
    }
    at_best.offer(std::move(best));
    if (at_best.next(*end_).ok()) return wait_for_hosts(planned, next.status().message());
  }
  if (job_.failure.on_failure != model::OnFailure::kFail) {
    observer_->on_warning(fmt::format("the job does not start again: {}", next.status().message()));
  }
  is_waiting_ = false;
  finish(*std::exchange(failed_, std::nullopt));
}

void RestartingJob::commit(GenerationPlanner planned, NextGeneration next) {
  is_waiting_ = false;
  wait_timer_.cancel();
  return_timer_.cancel();
  waits_why_.clear();
  planner_ = std::move(planned);
  next_ = std::move(next);
  count_generation();
  pool_->change({.number = options_.attempt, .placement = next_->placement, .state = planner_.state()});
  report_generation(*failed_, *next_);
  is_resizing_ = false;
  resize_timer_.cancel();
  resize_hosts_.clear();
  end_.reset();
  pool_->when_stored(gate_.wrap([this](const base::Status& stored) {
    if (stored.ok()) return launch_generation();
    generation_not_stored(stored);
  }));
}

// The next launcherd would not find the ranks of this generation, so none starts.
void RestartingJob::generation_not_stored(const base::Status& why) {
  next_.reset();
  JobOutcome outcome = *std::exchange(failed_, std::nullopt);
  const std::string text =
      fmt::format("the job does not start again, because launcherd could not store that: {}", why.message());
  observer_->on_warning(text);
  outcome.cause = StopCause::kHostFailed;
  outcome.exit_code = model::kMusterFailed;
  outcome.host_failures.insert(outcome.host_failures.begin(), HostFailure{"", text});
  finish(std::move(outcome));
}

void RestartingJob::wait_for_hosts(const GenerationPlanner& planned, const std::string& why) {
  if (!std::exchange(is_waiting_, true)) limit_wait();
  if (const auto when = planned.next_return()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*when - clock_.wall());
    return_timer_ = loop_.after(std::max<base::Duration>(left, base::Duration::zero()), [this] { hosts_changed(); });
  }
  if (waits_why_ == why) return;
  waits_why_ = why;
  GenerationWait wait{.end = *end_, .reason = reason_of_end(*failed_, end_->is_resize, resize_reason_)};
  wait.failed = planned.failed();
  for (const HostFailure& host : failed_->unclean) wait.unclean.push_back(host.host);
  observer_->on_warning(fmt::format("{}; the job waits for a free host", why));
  pool_->wait(wait, why);
}

// The runner limits the time of ranks that run, but no rank runs now.
void RestartingJob::limit_wait() {
  if (!timeout_) return;
  const base::Duration left = *timeout_ - (clock_.now() - started_at_);
  wait_timer_ = loop_.after(std::max(left, base::Duration::zero()), [this] { stop(StopCause::kTimeout); });
}

void RestartingJob::hosts_changed() {
  if (is_waiting_ && failed_) plan_next();
}

// An earlier launcherd ended while the job waited. Its runner never starts, because no rank is left.
void RestartingJob::resume_wait(const GenerationWait& wait) {
  failed_ = outcome_of(wait);
  std::set<std::string> unsearched;
  for (const std::string& host : wait.unclean) {
    failed_->unclean.push_back({host, fmt::format("{}: processes of the job may be left: check the host", host)});
    unsearched.insert(host);
  }
  end_ = wait.end;
  end_->unsearched = std::move(unsearched);
  for (const model::FailedHost& host : wait.failed) {
    end_->reasons.emplace(host.name, host.reason);
    if (!host.usable_from) end_->never_back.insert(host.name);
  }
  is_resizing_ = wait.end.is_resize;
  is_waiting_ = true;
  limit_wait();
  again_ = loop_.after(base::Duration::zero(), [this] { hosts_changed(); });
}

std::optional<int> RestartingJob::resizes_to() const {
  return is_resizing_ && !next_ ? std::optional(planner_.wanted()) : std::nullopt;
}

base::Status RestartingJob::resize(int ranks, std::vector<model::HostSpec> hosts, ResizeReason reason) {
  const model::FailurePolicy& policy = job_.failure;
  if (pool_ == nullptr || !model::may_change_hosts(policy)) {
    return base::failed_precondition("its size is fixed: submit it with --on-failure shrink or --on-failure replace");
  }
  if (is_stopped_) return base::failed_precondition("it is ending, so its size cannot change");
  if (ranks == (is_resizing_ ? planner_.wanted() : planner_.size()) && !is_waiting_) return base::ok_status();
  if (ranks < policy.min_ranks || ranks > policy.max_ranks.value_or(model::kMaxRanks)) {
    return base::error(Code::kOutOfRange,
                       "{} ranks are not between {} and {}: --min-np and --max-np say so at submission", ranks,
                       policy.min_ranks, policy.max_ranks ? std::to_string(*policy.max_ranks) : "any number");
  }
  // Not kUnavailable, which says that no launcherd answers.
  if (next_) return base::error(Code::kAborted, "its next generation begins just now: try again in a moment");
  if (options_.resumes && !is_running_ && !failed_) {
    return base::error(Code::kAborted, "its agents are connecting to this launcherd: try again in a moment");
  }
  const std::vector<model::HostSpec> hosts_before = std::exchange(resize_hosts_, std::move(hosts));
  GenerationPlanner planned = planner_;
  planned.set_time(clock_.wall());
  planned.resize(ranks);
  planned.offer(offers(Availability::kNow));
  GenerationEnd end = end_.value_or(GenerationEnd());
  end.is_resize = true;
  const auto next = planned.next(end);
  const int got = next.ok() ? next->placement.size : 0;
  if (got != ranks) {
    resize_hosts_ = hosts_before;
    return !next.ok() ? next.status()
                      : base::resource_exhausted(
                            "{} more slots are needed, but only {} are free for the job: see muster "
                            "hosts, or ask for {} ranks",
                            ranks - planner_.size(), got - planner_.size(), got);
  }
  planner_.resize(ranks);
  resize_reason_ = std::move(reason);
  if (!resize_reason_.text.empty()) {
    observer_->on_warning(fmt::format("generation {}: {}", options_.attempt, resize_reason_.text));
  }
  begin_resize();
  return base::ok_status();
}

void RestartingJob::begin_resize() {
  const bool is_first = !std::exchange(is_resizing_, true);
  if (failed_) {
    end_->is_resize = true;
    return plan_next();
  }
  if (!is_first || is_ending_) return;
  // The next launcherd must know of the resize before any rank does. The caller of resize() records it in this turn of
  // the loop.
  loop_.post(gate_.wrap([this] {
    pool_->when_stored(gate_.wrap([this](const base::Status& stored) {
      if (stored.ok()) return end_for_resize();
      resize_not_stored(stored);
    }));
  }));
}

// The ranks go on as before.
void RestartingJob::resize_not_stored(const base::Status& why) {
  if (!is_resizing_ || is_ending_ || failed_ || next_) return;
  observer_->on_warning(fmt::format("the job keeps its {} ranks, because launcherd could not store the change: {}",
                                    placement_.size, why.message()));
  planner_.resize(placement_.size);
  is_resizing_ = false;
  resize_hosts_.clear();
}

// Ends the generation: gives the ranks their signal and the time after it, or stops them at once.
void RestartingJob::end_for_resize() {
  if (!is_resizing_ || is_stopped_ || is_ending_ || failed_ || next_) return;
  if (!failed_at_) failed_at_ = clock_.now();
  if (!is_running_ || !job_.end_signal) return runner_->stop(StopCause::kResize);
  observer_->on_warning(fmt::format("resize to {} ranks: signal {} to all ranks, which have {} s", planner_.wanted(),
                                    job_.end_signal->signo,
                                    std::chrono::ceil<std::chrono::seconds>(job_.end_signal->ahead).count()));
  give_notice();
}

// The agents remember that the ranks got the signal, also from an earlier launcherd.
void RestartingJob::give_notice() {
  runner_->signal_ranks(job_.end_signal->signo, true);
  resize_timer_ = loop_.after(job_.end_signal->ahead, [this] { runner_->stop(StopCause::kResize); });
}

int RestartingJob::could_grow_to(int most) const {
  const int size = planner_.size();
  const bool is_busy = !is_running_ || is_ending_ || is_resizing_ || is_stopped_ || failed_ || next_;
  if (pool_ == nullptr || !model::may_change_hosts(job_.failure) || is_busy || most <= size) return size;
  GenerationPlanner planned = planner_;
  planned.set_time(clock_.wall());
  planned.resize(most);
  planned.offer(offers(Availability::kNow));
  const auto next = planned.next({.is_resize = true});
  return next.ok() ? std::max(size, next->placement.size) : size;
}

}  // namespace muster::launcherd::run
