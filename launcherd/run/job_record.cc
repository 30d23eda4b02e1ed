// All of JobRecord, and the functions that turn an outcome into a state and an event.
// Read it in this order: the constructor, keep, Update, then the queries job and watch.
#include "launcherd/run/job_record.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/host_name.h"
#include "base/strings.h"
#include "proto/bound_rank.h"
#include "proto/convert.h"
#include "proto/event_json.h"

namespace muster::launcherd::inline run {
namespace {

constexpr int kHighestSignal = 64;
// bytes of ranks in one answer; below gRPC's limit for a message
constexpr std::size_t kLongestAnswer = std::size_t{3} << 20;

}  // namespace

base::Status check_signal(int signo) {
  if (signo < 1 || signo > kHighestSignal) {
    return base::invalid_argument("there is no signal {}: 1 to {}", signo, kHighestSignal);
  }
  if (signo == SIGKILL) {
    return base::invalid_argument("SIGKILL ends the job: kill it instead");
  }
  return base::ok_status();
}

model::JobState final_state(const JobOutcome& outcome) {
  if (outcome.exit_code == 0) return model::JobState::kSucceeded;
  switch (outcome.cause) {
    case StopCause::kHangup:
    case StopCause::kInterrupt:
    case StopCause::kTerminate:
    case StopCause::kStdoutClosed:
      return model::JobState::kKilled;
    default:
      return model::JobState::kFailed;
  }
}

namespace {

// Returns JobEnded::is_retryable.
std::optional<bool> is_retryable(const JobOutcome& outcome) {
  if (outcome.exit_code == 0) return std::nullopt;
  if (model::asks_never_again(outcome.ends)) return false;
  const bool has_failed = outcome.root >= 0 || (outcome.cause == StopCause::kHostFailed && !outcome.ends.empty());
  return has_failed && final_state(outcome) == model::JobState::kFailed ? std::optional(true) : std::nullopt;
}

}  // namespace

model::JobEnded ended_event(const std::string& job_id, const JobOutcome& outcome) {
  model::JobEnded ended;
  ended.job_id = job_id;
  ended.exit_code = outcome.exit_code;
  if (outcome.root >= 0) ended.root_cause_rank = outcome.ends[static_cast<std::size_t>(outcome.root)].rank;
  ended.ends = outcome.ends;
  for (const std::string_view line : base::split(base::trim(outcome.stderr_tail), '\n')) {
    if (!line.empty()) ended.stderr_tail.emplace_back(line);
  }
  ended.alike_ranks = outcome.alike_ranks;
  ended.strays_killed = outcome.strays_killed;
  for (const HostFailure& host : outcome.unclean) ended.unclean_hosts.push_back(host.host);
  ended.is_retryable = is_retryable(outcome);
  return ended;
}

JobRecord::JobRecord(std::string job_id, std::vector<std::string> command, const model::Placement& placement,
                     const base::Clock& clock, JobObserver* next)
    : clock_(clock), next_(next) {
  job_.set_id(job_id);
  job_.set_state(v1::JOB_STATE_STARTING);
  for (const std::string& word : command) job_.add_command(base::valid_utf8(word));
  proto::set_roles(placement.roles, *job_.mutable_roles());
  job_.set_launcher_host(base::own_host_name());
  job_.set_launcher_pid(::getpid());
  keep(model::JobStarting{std::move(job_id), placement});
  *job_.mutable_started() = events_.front().time();
}

void JobRecord::set_name(const std::string& name) {
  job_.set_name(base::valid_utf8(name));
}

// Sets the ranks as new ones, and adds the hosts that the record does not have. A host without ranks stays, because
// later generations may use it again.
void JobRecord::set_hosts(const model::Placement& placement) {
  job_.set_size(placement.size);
  ranks_.assign(static_cast<std::size_t>(placement.size), {});
  for (v1::HostStatus& host : *job_.mutable_hosts()) host.set_ranks(0);
  for (const model::PlacedHost& placed : placement.hosts) {
    v1::HostStatus* host = host_named(placed.host.name);
    if (host == nullptr) {
      host_index_.emplace(placed.host.name, job_.hosts_size());
      host = job_.add_hosts();
    }
    host->set_name(placed.host.name);
    host->set_ranks(static_cast<int>(placed.ranks.size()));
    for (const model::PlacedRank& place : placed.ranks) {
      v1::RankStatus& rank = ranks_[static_cast<std::size_t>(place.rank)];
      rank.set_rank(place.rank);
      rank.set_host(placed.host.name);
      rank.set_state(v1::RANK_STATE_WAITING);
    }
  }
}

// Processes that stay in the job keep what is known about them.
void JobRecord::change_members(const model::GenerationBegan& began) {
  const std::vector<v1::RankStatus> before = ranks_;
  set_hosts(began.placement);
  job_.set_attempt(began.number);
  job_.clear_first_collective_ms();
  job_.clear_hang();
  job_.clear_wrong_world();
  job_.clear_late();
  job_.set_last_change(base::valid_utf8(model::describe(began)));
  proto::set_failed_hosts(began.failed, *job_.mutable_failed_hosts());
  if (began.former.empty()) {  // all agents and processes are new
    job_.set_state(v1::JOB_STATE_STARTING);
    for (v1::HostStatus& host : *job_.mutable_hosts()) host.set_up(false);
  }
  for (std::size_t rank = 0; rank < began.former.size() && rank < ranks_.size(); ++rank) {
    const auto former = static_cast<std::size_t>(began.former[rank]);
    if (began.former[rank] < 0 || former >= before.size()) continue;
    ranks_[rank] = before[former];
    ranks_[rank].set_rank(static_cast<int>(rank));
  }
}

v1::Job JobRecord::job(const v1::GetJobRequest& request) const {
  v1::Job answer = job_;
  if (request.max_ranks() < 0) return answer;
  const int wanted = request.max_ranks() > 0 ? std::min(request.max_ranks(), kMaxRanksOfAnAnswer) : kMaxRanksOfAnAnswer;
  const auto first = static_cast<std::size_t>(std::max(request.first_rank(), 0));
  std::size_t bytes = 0;
  for (std::size_t i = first; i < ranks_.size() && i - first < static_cast<std::size_t>(wanted); ++i) {
    bytes += ranks_[i].ByteSizeLong();
    if (bytes > kLongestAnswer && i > first) break;  // the client asks again for the remaining ranks
    *answer.add_ranks() = ranks_[i];
  }
  return answer;
}

base::Result<std::uint64_t> JobRecord::watch(std::uint64_t from, std::function<void(const v1::Event&)> on_event,
                                             std::function<void()> on_end) {
  from = std::max<std::uint64_t>(from, 1);
  if (!events_.empty() && from < events_.front().sequence()) {
    return base::error(base::Code::kOutOfRange, "events before number {} are not kept any more",
                       events_.front().sequence());
  }
  for (const v1::Event& event : events_) {
    if (event.sequence() >= from) on_event(event);
  }
  watchers_[next_watcher_] = {std::move(on_event), std::move(on_end)};
  return next_watcher_++;
}

void JobRecord::on_progress(int up, int total, const std::vector<std::string>& waiting) {
  next_->on_progress(up, total, waiting);
}

void JobRecord::on_running() {
  if (job_.state() == v1::JOB_STATE_STARTING) job_.set_state(v1::JOB_STATE_RUNNING);
  next_->on_running();
}

v1::HostStatus* JobRecord::host_named(const std::string& name) {
  const auto found = host_index_.find(name);
  return found == host_index_.end() ? nullptr : job_.mutable_hosts(found->second);
}

struct JobRecord::Update {
  JobRecord& record;

  v1::RankStatus* rank(int number) const {
    const auto at = static_cast<std::size_t>(number);
    return number >= 0 && at < record.ranks_.size() ? &record.ranks_[at] : nullptr;
  }
  void operator()(const model::JobStarting& starting) const { record.set_hosts(starting.placement); }
  void operator()(const model::HostsLeftOut& left_out) const {
    record.job_.set_last_change(base::valid_utf8(model::describe(left_out)));
  }
  void operator()(const model::HostUp& up) const {
    v1::HostStatus* const host = record.host_named(up.host);
    if (host == nullptr) return;
    host->set_up(true);
    host->set_link(up.link);
    host->set_containment(base::valid_utf8(up.containment));
  }
  void operator()(const model::RankUp& up) const {
    if (rank(up.rank) == nullptr) return;
    rank(up.rank)->set_state(v1::RANK_STATE_RUNNING);
    rank(up.rank)->set_pid(up.pid);
  }
  void operator()(const model::RankEnd& end) const {
    if (rank(end.rank) == nullptr) return;
    rank(end.rank)->set_state(v1::RANK_STATE_ENDED);
    *rank(end.rank)->mutable_end() = record.events_.back().rank_ended();
  }
  void operator()(const model::HostSuspect& suspect) const {
    v1::HostStatus* const host = record.host_named(suspect.host);
    if (host != nullptr) host->set_suspect(suspect.suspect);
  }
  void operator()(const model::JobStopping& stopping) const {
    record.job_.set_state(v1::JOB_STATE_STOPPING);
    record.job_.set_reason(base::valid_utf8(stopping.reason));
  }
  void operator()(const model::JobRestarting& restarting) const {
    record.job_.set_state(v1::JOB_STATE_STARTING);
    record.job_.set_attempt(restarting.attempt);
    record.job_.clear_hang();
    record.job_.clear_first_collective_ms();
    record.job_.clear_wrong_world();
    record.job_.clear_late();
    for (v1::HostStatus& host : *record.job_.mutable_hosts()) host.set_up(false);
    for (v1::RankStatus& status : record.ranks_) {
      status.set_state(v1::RANK_STATE_WAITING);
      status.set_pid(0);
      status.clear_end();
    }
  }
  void operator()(const model::GenerationBegan& began) const { record.change_members(began); }
  void operator()(const model::FirstCollectiveEnded& ended) const {
    record.job_.set_first_collective_ms(ended.elapsed.count());
  }
  void operator()(const model::WrongWorld&) const {
    *record.job_.mutable_wrong_world() = record.events_.back().wrong_world();
  }
  void operator()(const model::LateHost&) const {}
  void operator()(const model::NotifyFailed&) const {}
  void operator()(const model::ElementChanged&) const {}
  void operator()(const model::JobStateChanged& changed) const {
    record.job_.set_state(static_cast<v1::JobState>(changed.state));
    record.job_.set_reason(base::valid_utf8(changed.reason));
  }
  void operator()(const model::HangReported&) const {
    *record.job_.mutable_hang() = record.events_.back().hang_reported();
  }
  void operator()(const model::JobEnded&) const { record.job_.clear_hang(); }
};

void JobRecord::keep(const model::JobEvent& event) {
  const std::uint64_t sequence = job_.last_event() + 1;
  events_.push_back(proto::make_event(event, sequence, clock_.wall()));
  job_.set_last_event(sequence);
  if (events_.size() > kMaxEvents) events_.pop_front();
  std::visit(Update{*this}, event);
  // Iterate over a copy, because a watcher may call unwatch() from its own callback.
  const auto watchers = watchers_;
  for (const auto& [id, watcher] : watchers) watcher.on_event(events_.back());
}

void JobRecord::on_late(const std::vector<v1::RankLateness>& latest) {
  job_.mutable_late()->Assign(latest.begin(), latest.end());
  next_->on_late(latest);
}

void JobRecord::on_bound(const std::vector<model::BoundRank>& ranks) {
  for (const model::BoundRank& bound : ranks) {
    const auto at = static_cast<std::size_t>(bound.rank);
    if (at < ranks_.size()) proto::set_binding(bound, ranks_[at]);
  }
  next_->on_bound(ranks);
}

void JobRecord::on_hang_over(std::chrono::milliseconds silent) {
  job_.clear_hang();
  next_->on_hang_over(silent);
}

void JobRecord::on_event(const model::JobEvent& event) {
  keep(event);
  next_->on_event(event);
}

void JobRecord::on_finished(const JobOutcome& outcome) {
  keep(ended_event(job_.id(), outcome));
  job_.set_state(static_cast<v1::JobState>(final_state(outcome)));
  for (const auto& [id, watcher] : std::exchange(watchers_, {})) watcher.on_end();
  next_->on_finished(outcome);
}

}  // namespace muster::launcherd::run
