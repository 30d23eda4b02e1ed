// The part of JobRunner's core that handles hosts that are late or do not come up, and starts without them.
// Read it in this order: limit_start, host_start_failed, start_timed_out, are_members_settled, start_without_late; then
// the reports of progress.
#include <algorithm>
#include <array>

#include "base/strings.h"
#include "launcherd/run/job_core.h"
#include "model/host_group.h"

namespace muster::launcherd::inline run {
namespace {

// The bootstrap has the same time limit and knows how far each host came. With this margin the bootstrap reports first.
constexpr std::chrono::milliseconds kBootstrapSpeaksFirst{500};
// When lines about hosts that are not up are written, counted from the start. Then one more each minute.
constexpr auto kWaitingRemarks =
    std::to_array<std::chrono::seconds>({std::chrono::seconds(10), std::chrono::seconds(30), std::chrono::seconds(60)});

std::vector<model::HostText> texts_of_failures(const std::vector<HostFailure>& failures) {
  std::vector<model::HostText> texts;
  for (const HostFailure& failure : failures) texts.push_back({failure.host, failure.message});
  return texts;
}

}  // namespace

// Starts agents on hosts that may take the place of others.
void JobRunner::Core::add_reserve(std::vector<AgentHost>& hosts) {
  if (job_.min_hosts == 0 || !options_.start_without) return;
  for (const model::HostSpec& spec : options_.reserve) {
    JobHost& host = hosts_.add(spec.name, model::is_localhost(spec));
    host.placed = -1;
    host.is_reserve = true;
    hosts.push_back(
        {.target = {.name = spec.name, .user = spec.user, .port = spec.port}, .is_local = host.facts.local});
  }
}

void JobRunner::Core::limit_start() {
  // Agents that an earlier launcherd started come back by themselves. Wait for one lease, because they keep their ranks
  // that long.
  const auto patience = options_.resumes ? job_.lease : job_.start_timeout;
  start_deadline_ = clock_.now() + patience + kBootstrapSpeaksFirst;
  timers_.start(JobTimer::kStart, start_deadline_ - clock_.now(), [this] { start_timed_out(); });
  if (!options_.resumes) {
    timers_.start(JobTimer::kWaiting, kWaitingRemarks.front(), [this] { remark_waiting(); });
  }
}

// Returns whether hosts that are not up may be left out.
bool JobRunner::Core::may_leave_out() const {
  return job_.min_hosts > 0 && options_.start_without && phase_ == JobPhase::kConnecting;
}

void JobRunner::Core::host_start_failed(JobHost& host, const std::string& message) {
  if (host.joins) return live_start_failed(host, message);
  agents_->drop(host.agent);
  if (may_leave_out()) {
    not_up_.push_back({host.name, message});
    report_progress();
    return maybe_prepare();
  }
  host_failures_.push_back({host.name, message});
  report_progress();
  fail_start_soon();
}

// Ends the job once the other hosts are up or have failed, but not later than kGatherFailures.
void JobRunner::Core::fail_start_soon() {
  if (!hosts_.is_any_waiting()) {
    fail_start();
  } else if (!timers_.is_armed(JobTimer::kGather)) {
    timers_.start(JobTimer::kGather, kGatherFailures, [this] { fail_start(); });
  }
}

void JobRunner::Core::fail_start() {
  if (!not_up_.empty()) {
    const auto [up, total] = count_up();
    host_failures_.push_back(
        {"",
         fmt::format("{} of {} hosts are up, fewer than --min-hosts {}; raise --start-timeout if the others are only "
                     "slow, or lower --min-hosts",
                     model::format_count(static_cast<std::size_t>(up)),
                     model::format_count(static_cast<std::size_t>(total)), job_.min_hosts)});
    std::ranges::move(std::exchange(not_up_, {}), std::back_inserter(host_failures_));
  }
  begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), "a host did not start");
}

// Returns whether the host has not taken the step that the job waits for.
bool JobRunner::Core::is_late(const JobHost& host) const {
  const bool prepares = phase_ == JobPhase::kPreparing && host.phase == HostPhase::kUp;
  return is_waiting(host.phase) || (prepares && host.placed >= 0 && !host.has_launched);
}

void JobRunner::Core::start_timed_out() {
  const bool leaves_out = may_leave_out() && !stop_.is_early();
  for (JobHost& host : hosts_) {
    if (!is_late(host)) continue;
    const bool was_up = host.phase == HostPhase::kUp;
    const std::string why = why_not_in_time(host);
    if (host.phase.apply(HostEvent::kStartOverdue) != HostAction::kReportLate) continue;
    (leaves_out ? not_up_ : host_failures_).push_back({host.name, why});
    if (options_.resumes) unclean_.push_back(host_failures_.back());
    if (options_.resumes || was_up || leaves_out) agents_->drop(host.agent);
  }
  if (leaves_out) return maybe_prepare();
  begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0),
             stop_.is_early() ? "the job was stopped" : "not all hosts came up in time");
}

std::string JobRunner::Core::why_not_in_time(const JobHost& host) const {
  if (options_.resumes) {
    return fmt::format(
        "{}: the agent there has not come back to this launcherd: it ends its ranks when it does, or when "
        "their lease is over",
        host.name);
  }
  std::string_view step = "no log-in";
  if (host.phase == HostPhase::kJoining) step = "the agent was started but did not report";
  if (host.phase == HostPhase::kUp) step = "the agent was up but did not prepare the host";
  return fmt::format("{}: {} within {} s; check the host and its network, or allow more by --start-timeout", host.name,
                     step, std::chrono::duration_cast<std::chrono::seconds>(job_.start_timeout).count());
}

// Only if hosts may be left out. Returns whether the job can go on: all members are up, or it starts without some. It
// may have stopped the job if it returns false.
bool JobRunner::Core::are_members_settled() {
  const bool has_failed = std::ranges::any_of(
      hosts_, [](const JobHost& host) { return host.phase == HostPhase::kFailed && !host.is_reserve; });
  if (has_failed) {
    const auto usable = std::ranges::count_if(
        hosts_, [](const JobHost& host) { return host.phase == HostPhase::kUp || is_waiting(host.phase); });
    if (usable >= job_.min_hosts) return !hosts_.is_any_waiting() && start_without_late();
    fail_start_soon();
    return false;
  }
  const bool are_up =
      std::ranges::all_of(hosts_, [](const JobHost& host) { return host.is_reserve || host.phase == HostPhase::kUp; });
  if (!are_up) return false;
  for (JobHost& host : hosts_) {
    if (host.is_reserve) release(host);
  }
  return true;
}

// The job does not need this host.
void JobRunner::Core::release(JobHost& host) {
  host.placed = -1;
  host.is_left_out = true;
  if (host.phase == HostPhase::kFailed) return;
  const bool is_up = host.phase == HostPhase::kUp;
  host.phase.apply(HostEvent::kNotNeeded);
  is_up ? agents_->leave(host.agent) : agents_->drop(host.agent);
}

// Returns false if the hosts that are up are not enough. The job is then being stopped.
bool JobRunner::Core::start_without_late() {
  GenerationEnd end{.at = clock_.wall()};
  for (const HostFailure& failure : not_up_) {
    end.bad_hosts.push_back(failure.host);
    end.reasons.emplace(failure.host, model::short_reason(failure.message, failure.host));
  }
  const auto next = options_.start_without(end);
  if (!next.ok()) {
    std::ranges::move(std::exchange(not_up_, {}), std::back_inserter(host_failures_));
    host_failures_.push_back({"", next.status().message()});
    begin_stop(StopCause::kHostFailed, std::chrono::milliseconds(0), next.status().message());
    return false;
  }
  not_up_.clear();
  use_placement(*next);
  limit_start();  // the hosts have this time to prepare
  return true;
}

void JobRunner::Core::use_placement(const NextGeneration& next) {
  placement_ = next.placement;
  job_.placement = next.request;
  ends_ = EndCollector(placement_.size, job_.on_exit, model::service_ranks(job_.roles));
  worlds_.set_first_number(placement_.size);
  world_audit_.begin(placement_.size);
  const auto index_of = places_by_name(placement_);
  for (JobHost& host : hosts_) {
    const auto found = index_of.find(host.name);
    if (found == index_of.end()) {
      release(host);
      continue;
    }
    host.placed = found->second;
    host.is_reserve = false;
  }
}

std::vector<std::string> JobRunner::Core::waiting_hosts() const {
  std::vector<std::string> waiting;
  for (const JobHost& host : hosts_) {
    if (is_waiting(host.phase) && !host.is_reserve) waiting.push_back(host.name);
  }
  return waiting;
}

// Returns how many hosts are up, and how many the job needs.
std::pair<int, int> JobRunner::Core::count_up() const {
  int up = 0;
  int total = 0;
  for (const JobHost& host : hosts_) {
    if (host.phase == HostPhase::kUnused || host.is_left_out || (host.is_reserve && host.phase != HostPhase::kUp)) {
      continue;
    }
    ++total;
    if (!is_waiting(host.phase) && host.phase != HostPhase::kFailed) ++up;
  }
  return {up, total};
}

// Reports progress once for all events of this turn of the loop, and not more often than each kProgressPeriod.
void JobRunner::Core::report_progress() {
  const bool is_last = !hosts_.is_any_waiting();
  if (timers_.is_armed(JobTimer::kProgress) && !is_last) return;
  const base::Duration passed = clock_.now() - progress_at_;
  const base::Duration delay =
      is_last ? base::Duration::zero() : std::max<base::Duration>(kProgressPeriod - passed, {});
  timers_.start(JobTimer::kProgress, delay, [this] {
    timers_.cancel(JobTimer::kProgress);
    send_progress();
  });
}

void JobRunner::Core::send_progress() {
  progress_at_ = clock_.now();
  const auto [up, total] = count_up();
  observer_->on_progress(up, total, waiting_hosts());
}

// Writes a line about the hosts that are not up, for logs and for people without a status line.
void JobRunner::Core::remark_waiting() {
  timers_.cancel(JobTimer::kWaiting);
  const std::vector<std::string> waiting = waiting_hosts();
  if (waiting.empty()) return;
  const auto [up, total] = count_up();
  std::string line = model::describe_waiting(static_cast<std::size_t>(up), static_cast<std::size_t>(total), waiting);
  const auto& failed = not_up_.empty() ? host_failures_ : not_up_;
  if (!failed.empty()) {
    line += fmt::format("; {} failed: {}", model::format_count(failed.size()),
                        model::describe_not_up(texts_of_failures(failed)));
  }
  observer_->on_remark(line);
  ++remarks_;
  const auto next = remarks_ < kWaitingRemarks.size() ? kWaitingRemarks.at(remarks_) - kWaitingRemarks.at(remarks_ - 1)
                                                      : std::chrono::seconds(60);
  timers_.start(JobTimer::kWaiting, next, [this] { remark_waiting(); });
}

}  // namespace muster::launcherd::run
