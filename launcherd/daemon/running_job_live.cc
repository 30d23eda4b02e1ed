// The part of RunningJob for jobs whose ranks live on while their number changes (docs/adr/0049).
// Read it in this order: resize_live, shrink_live, add_slots, list_hosts_when_stored, send_hosts; on_live_hosts,
// count_slots, narrow_shares, seek_slots; begin_live_generation, carry_over; abandon, abandoned.
#include <algorithm>
#include <utility>

#include "launcherd/daemon/running_job.h"
#include "launcherd/run/stop_plan.h"
#include "model/exit_code.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

using base::Code;

constexpr std::string_view kCannotBeTakenOver =
    "launcherd ended while the job ran, and no launcherd can take over ranks that live on: submit it again";

// A job that lacks slots takes further ones only so long after they could not be stored.
constexpr std::chrono::seconds kStorePause{1};

int count(const std::vector<model::HostSpec>& hosts) {
  int slots = 0;
  for (const model::HostSpec& host : hosts) slots += host.slots.value_or(0);
  return slots;
}

bool counts_as(const model::Placement& placement, const model::Placement& other) {
  return std::ranges::equal(
      placement.hosts, other.hosts, [](const model::PlacedHost& one, const model::PlacedHost& two) {
        return one.host.name == two.host.name && one.ranks.size() == two.ranks.size() && one.share == two.share;
      });
}

}  // namespace

base::Result<model::HostShare> RunningJob::live_share(const std::string& host) const {
  const auto share = slots_->share_on(host);
  if (!share) return base::unavailable("{}: the job's part of its cores and GPUs is not decided yet", host);
  return *share;
}

base::Status RunningJob::resize_live(int ranks, const std::vector<model::HostSpec>& hosts, ResizeReason reason) {
  if (!stop_reason_.empty() || state_ == model::JobState::kStopping) {
    return base::failed_precondition("it is ending, so its size cannot change");
  }
  if (state_ != model::JobState::kRunning)
    return base::error(base::Code::kAborted, "it starts just now: try again in a moment");
  if (ranks == slots_->size()) return base::ok_status();
  if (ranks < live_->min_ranks || ranks > live_->max_ranks.value_or(model::kMaxRanks)) {
    return base::error(Code::kOutOfRange,
                       "{} ranks are not between {} and {}: --min-np and --max-np say so at submission", ranks,
                       live_->min_ranks, live_->max_ranks ? std::to_string(*live_->max_ranks) : "any number");
  }
  if (ranks < slots_->size()) return shrink_live(ranks, std::move(reason));
  const model::Placement before = slots_->held();
  const int more = ranks - slots_->size();
  const auto chosen = choose_slots(*slots_, more, hosts, offers(Availability::kNow));
  if (const int found = count(chosen); found < more) {
    return base::resource_exhausted(
        "{} more slots are needed, but only {} are free for the job: see muster hosts, or ask for {} ranks", more,
        found, slots_->size() + found);
  }
  MUSTER_RETURN_IF_ERROR(add_slots(chosen));
  if (!reason.text.empty()) on_warning(fmt::format("generation {}: {}", attempt_, reason.text));
  size_change_ = std::move(reason);
  count_slots(before);
  list_hosts_when_stored();
  return base::ok_status();
}

// The job gets the shorter list at once. It has no new host, so the store need not have it before.
base::Status RunningJob::shrink_live(int ranks, ResizeReason reason) {
  if (!reason.text.empty()) on_warning(fmt::format("generation {}: {}", attempt_, reason.text));
  size_change_ = std::move(reason);
  const model::Placement before = slots_->held();
  slots_->shrink(ranks);
  count_slots(before);
  return send_hosts(slots_->listed_and_sent());
}

// Adds all slots, or none.
base::Status RunningJob::add_slots(const std::vector<model::HostSpec>& hosts) {
  LiveSlots more = *slots_;
  for (const model::HostSpec& host : hosts) {
    std::optional<model::HostShare> share;
    if (owner_.further_share) {
      MUSTER_ASSIGN_OR_RETURN(share, owner_.further_share(host.name, host.slots.value_or(1)));
    }
    more.add(host, share);
  }
  slots_ = std::move(more);
  return base::ok_status();
}

int RunningJob::most_live(int most) const {
  const int size = slots_->size();
  if (is_over_ || state_ != model::JobState::kRunning || most <= size || !owner_.offers) return size;
  return size + count(choose_slots(*slots_, most - size, {}, owner_.offers(Availability::kNow)));
}

// The next launcherd must know each host before a process starts there. A later call replaces an earlier one, whose
// list may have slots that are not stored yet.
void RunningJob::list_hosts_when_stored() {
  surroundings_.loop->post(gate_.wrap([this, number = ++lists_] {
    if (is_over_ || number != lists_) return;
    when_stored(gate_.wrap([this, number](const base::Status& stored) {
      if (number == lists_) hosts_stored(stored);
    }));
  }));
}

void RunningJob::hosts_stored(const base::Status& stored) {
  if (is_over_ || !stop_reason_.empty()) return;
  if (!stored.ok()) {
    on_warning(fmt::format("it gets no further slots, because launcherd could not store them: {}", stored.message()));
    const model::Placement before = slots_->held();
    // Arm it first, because count_slots() offers the slots to all jobs that wait.
    seek_pause_ = surroundings_.loop->after(kStorePause, [this] {
      seek_pause_.cancel();
      seek_slots();
    });
    slots_->drop_unsent();
    count_slots(before);
  }
  if (const base::Status sent = send_hosts(slots_->listed()); !sent.ok()) on_warning(sent.message());
}

// Slots that neither this list nor a process has are free now. Before, the job could have started a process there.
base::Status RunningJob::send_hosts(const std::vector<model::HostSpec>& hosts) {
  MUSTER_RETURN_IF_ERROR(job_->set_live_hosts(hosts));
  if (is_over_) return base::ok_status();
  const model::Placement before = slots_->held();
  slots_->mark_sent(hosts);
  slots_->narrow(bound_);
  count_slots(before);
  return base::ok_status();
}

std::vector<model::FailedHost> RunningJob::failed_hosts_of(const LiveHosts& hosts) const {
  std::vector<model::FailedHost> failed;
  for (const LiveHost& host : hosts.hosts) {
    if (!host.is_excluded) continue;
    failed.push_back({.name = host.name, .reason = "the host or one of its processes failed"});
    if (!host.usable_from) continue;
    const base::Duration rest = *host.usable_from - surroundings_.clock->now();
    failed.back().usable_from =
        surroundings_.clock->wall() + std::chrono::duration_cast<base::WallTime::duration>(rest);
  }
  return failed;
}

void RunningJob::on_live_hosts(const LiveHosts& hosts) {
  if (!slots_ || is_over_) return;
  const model::Placement before = slots_->held();
  const bool is_list_changed = slots_->update(hosts);
  live_failed_ = failed_hosts_of(hosts);
  slots_->narrow(bound_);
  count_slots(before);
  if (is_list_changed) list_hosts_when_stored();
  const bool was_waiting = lacks_ > 0;
  lacks_ = hosts.lacks;
  if (was_waiting != (lacks_ > 0) && owner_.on_waiting) owner_.on_waiting(lacks_ > 0);
  if (lacks_ > 0) surroundings_.loop->post(gate_.wrap([this] { seek_slots(); }));
}

// Counts in the table of hosts, and stores, how the job's slots have changed.
void RunningJob::count_slots(const model::Placement& before) {
  const model::Placement after = slots_->held();
  if (counts_as(before, after)) return;
  if (owner_.reallocate) owner_.reallocate({before, after});
  record({recovery()});
}

// Gives the cores and GPUs back that no rank uses any longer.
void RunningJob::narrow_shares() {
  if (is_over_) return;
  const model::Placement before = slots_->held();
  slots_->narrow(bound_);
  count_slots(before);
}

// A job that lacks slots to go on takes those that are free.
void RunningJob::seek_slots() {
  if (seek_pause_.armed()) return;
  const int missing = live_->min_ranks - slots_->usable();
  if (lacks_ == 0 || missing <= 0 || is_over_ || !stop_reason_.empty()) return;
  const auto chosen = choose_slots(*slots_, missing, {}, offers(Availability::kNow));
  if (chosen.empty()) return;
  const model::Placement before = slots_->held();
  if (const base::Status added = add_slots(chosen); !added.ok()) return on_warning(added.message());
  // An excluded host may be used again later. Give its slots back if the job would then have too many.
  if (live_->max_ranks) slots_->shrink_excluded(*live_->max_ranks);
  count_slots(before);
  list_hosts_when_stored();
}

void RunningJob::begin_live_generation(model::GenerationBegan began) {
  hang_.reset();
  const auto change = std::exchange(size_change_, std::nullopt);
  const bool has_lost_host = std::exchange(has_lost_host_, false);
  const bool has_failed_rank = std::exchange(has_failed_rank_, false);
  GenerationCause cause = has_failed_rank ? GenerationCause::kFailure : GenerationCause::kResize;
  if (has_lost_host) cause = GenerationCause::kHostLost;
  if (change && cause == GenerationCause::kResize) {
    cause = cause_of(change->cause);
    began.reason = change->text.empty() ? "resized" : change->text;
  }
  owner_.on_generation(cause);
  if (owner_.on_running_again) owner_.on_running_again(began.elapsed);
  attempt_ = began.number;
  last_change_ = stored_reason(model::describe(began));
  const base::WallTime now = surroundings_.clock->wall();
  // The state table knows no change of ranks that run. The store applies both steps at once.
  Batch batch = {NewEvent{.job = id_,
                          .time = now,
                          .message = proto::stored_event(began, now),
                          .job_step = step(model::JobTrigger::kRestart, last_change_)}};
  if (auto runs = step(model::JobTrigger::kAllUp, last_change_)) {
    const model::JobStateChanged changed{model::JobState::kRunning, runs->reason};
    batch.emplace_back(
        NewEvent{.job = id_, .time = now, .message = proto::stored_event(changed, now), .job_step = std::move(runs)});
  }
  carry_over(began);
  for (const auto& [rank, running] : live_ranks_) {
    const model::RankUp up{rank, running.pid};
    batch.emplace_back(
        NewEvent{.job = id_, .time = now, .message = proto::stored_event(up, now), .rank_step = running});
  }
  batch.emplace_back(recovery());
  record(std::move(batch));
  narrow_shares();  // bound_ has the ranks that are left only now
}

// Gives what is known about ranks that live on to their new numbers.
void RunningJob::carry_over(const model::GenerationBegan& began) {
  std::map<std::string, v1::HostStatus> hosts;
  for (const v1::HostStatus& host : hosts_) hosts.emplace(host.name(), host);
  const std::vector<model::BoundRank> bound = std::move(bound_);
  const std::map<int, RankStep> ranks = std::exchange(live_ranks_, {});
  set_placement(began.placement);
  for (v1::HostStatus& host : hosts_) {
    const auto known = hosts.find(host.name());
    if (known == hosts.end()) continue;
    const int size = host.ranks();
    host = known->second;
    host.set_ranks(size);
  }
  for (std::size_t rank = 0; rank < began.former.size(); ++rank) {
    const int former = began.former[rank];
    const int number = static_cast<int>(rank);
    if (former >= 0 && static_cast<std::size_t>(former) < bound.size()) {
      bound_.push_back(bound[static_cast<std::size_t>(former)]);
      bound_.back().rank = number;
    }
    const auto known = ranks.find(former);
    if (known == ranks.end()) continue;
    RankStep& step = live_ranks_[number] = known->second;
    step.attempt = attempt_;
    step.rank = number;
    step.host = host_of(number);
  }
  // Without the part of a new rank, wait for on_bound().
  if (bound_.size() != began.former.size()) bound_.clear();
}

// An earlier launcherd ran the job. Which process has which rank was only in its memory.
base::Status RunningJob::abandon(const model::JobSpec& job) {
  const std::string why(kCannotBeTakenOver);
  surroundings_.on_line(fmt::format("job {}: {}", id_.str(), why));
  if (state_ != model::JobState::kStopping) {
    record_event(model::JobStopping{why}, step(model::JobTrigger::kStop, why), {});
  }
  PooledJob pooled;
  pooled.job_id = id_.str();
  pooled.hold = is_held_;
  pooled.lease = job.lease;
  pooled.secret = secret_;
  pooled.resumes = true;
  pooled.was_running = true;
  std::vector<AgentHost> hosts;
  for (const model::PlacedHost& placed : placement_.hosts) {
    hosts.push_back({.target = {.name = placed.host.name, .user = placed.host.user, .port = placed.host.port},
                     .is_local = model::is_localhost(placed.host)});
  }
  // An agent that cannot connect ends its ranks by itself: after the lease they get their grace time.
  AbandonedJobOptions options{.kill_grace = job.kill_grace,
                              .patience = job.lease + job.kill_grace + kStopMargin + kGpuMargin};
  if (stops_at_once_) options.kill_grace = std::chrono::milliseconds::zero();
  abandoned_ =
      std::make_unique<AbandonedJob>(*surroundings_.loop, options, surroundings_.pool->agents_for(std::move(pooled)),
                                     [this](const std::vector<std::string>& unclean) { abandoned(unclean); });
  return abandoned_->start(std::move(hosts));
}

void RunningJob::abandoned(const std::vector<std::string>& unclean) {
  model::JobEnded ended;
  ended.job_id = id_.str();
  for (const StoredRank& rank : resumed_->ranks) {
    if (model::is_final(rank.state)) continue;
    model::RankEnd end;
    end.rank = rank.rank;
    end.host = rank.host;
    end.pid = rank.pid;
    end.kind = model::EndKind::kStopped;
    end.detail = "launcherd ended";
    record_event(end, {}, step_of(end, attempt_, model::RankState::kStopped));
  }
  std::string leftovers;
  for (const std::string& problem : unclean) leftovers += "; " + problem;
  if (stop_reason_.empty()) {
    ended.exit_code = model::kMusterFailed;
    return this->end(model::JobState::kFailed, std::string(kCannotBeTakenOver) + leftovers, ended);
  }
  ended.exit_code = stop_cause_ == StopCause::kTimeout ? model::kTimedOut : model::kTerminated;
  this->end(model::JobState::kKilled, stop_reason_ + leftovers, ended);
}

}  // namespace muster::launcherd::daemon
