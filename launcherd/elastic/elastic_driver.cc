// The driver of an elastic job: State has all of it, and ElasticDriver forwards to it.
// Read try_plan() and begin() first, then on_exit() and record(), then decide() and settle(), then the notices.
#include "launcherd/elastic/elastic_driver.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

#include "launcherd/elastic/elastic_hosts.h"
#include "launcherd/elastic/slot_reports.h"

namespace muster::launcherd::inline elastic {
namespace {

using Kind = SlotReport::Kind;

constexpr base::Duration kNoticePause = std::chrono::seconds(1);  // workers drop a second notice in one second
constexpr int kHostLostExit = 1;
constexpr const char* kNoSurvivorText = "No hosts from previous set remaining, unable to broadcast state.";

void keep_earlier(std::optional<base::MonotonicTime>& at, const std::optional<base::MonotonicTime>& other) {
  if (other && (!at || *other < *at)) at = other;
}

bool is_due(const std::optional<base::MonotonicTime>& at, const ElasticTime& now) {
  return at && *at <= now.now;
}

std::set<std::string> hosts_of(const ElasticPlan& plan) {
  std::set<std::string> hosts;
  for (const PlannedSlot& planned : plan) hosts.insert(planned.slot.host);
  return hosts;
}

std::vector<std::string> hosts_only_in(const ElasticPlan& plan, const ElasticPlan& other) {
  std::vector<std::string> hosts;
  std::ranges::set_difference(hosts_of(plan), hosts_of(other), std::back_inserter(hosts));
  return hosts;
}

}  // namespace

class ElasticDriver::State {
 public:
  State(ElasticLimits limits, ElasticTime at, std::function<double()> random)
      : limits_(limits), hosts_(limits.cooldown, std::move(random)), waiting_until_(at.now + limits.elastic_timeout) {
    generation_.number = -1;
    cause_ = {.cause = ElasticCause::kStart, .detail = {}, .at = at.now};
  }

  void set_hosts(const std::vector<ElasticHost>& hosts, ElasticTime at) {
    hosts_.set_listed(hosts);
    hosts_.recover(at.now);
    on_hosts_changed(at);
  }

  void set_size(int min_np, std::optional<int> max_np, ElasticTime at) {
    limits_.min_np = min_np;
    limits_.max_np = max_np;
    on_hosts_changed(at);
  }

  void on_rank_and_size(const ElasticSlot& slot, ElasticTime at) {
    const auto process = processes_.find(slot);
    if (phase_ == ElasticPhase::kOver || process == processes_.end() || process->second.is_stopping) return;
    const bool is_released = phase_ == ElasticPhase::kRunning || phase_ == ElasticPhase::kBarrier;
    if (is_released && !reports_.is_planned(slot)) {
      actions_.emplace_back(ReleaseAnswers{generation_.number, {{slot, std::nullopt}}});
      return;
    }
    held_.insert(slot);
    if (is_released) record(slot, {.kind = Kind::kReady, .at = at.now}, at);
  }

  void on_first_put(int generation, int rank, ElasticTime at) {
    if (generation != generation_.number || awaited_.erase(rank) == 0) return;
    release_if_complete(at);
  }

  void on_exit(const ElasticSlot& slot, SlotExit exit, ElasticTime at) {
    const auto process = processes_.find(slot);
    if (process == processes_.end()) return;
    const bool is_expected = process->second.is_stopping;
    processes_.erase(process);
    held_.erase(slot);
    if (phase_ == ElasticPhase::kOver) return;
    if (is_expected || !reports_.is_planned(slot)) {
      if (phase_ == ElasticPhase::kWaiting) try_plan(at);
      return;
    }
    const Kind kind = exit.exit_code == 0 ? Kind::kSucceeded : Kind::kFailed;
    on_ended(slot, {.kind = kind, .at = at.now, .exit_code = exit.exit_code, .is_ours = exit.caused_by_us}, at);
  }

  void on_host_lost(const std::string& host, ElasticTime at) {
    if (phase_ == ElasticPhase::kOver) return;
    std::vector<ElasticSlot> ended;
    std::erase_if(processes_, [&](const auto& each) {
      if (each.first.host != host) return false;
      if (!each.second.is_stopping && reports_.is_planned(each.first)) ended.push_back(each.first);
      return true;
    });
    std::erase_if(held_, [&](const ElasticSlot& slot) { return slot.host == host; });
    const SlotReport lost{.kind = Kind::kFailed, .at = at.now, .exit_code = kHostLostExit, .is_host_lost = true};
    // Slots that have reported come first. So the report that completes the barrier is the last one.
    // Not the algorithm of std::ranges, which clang 14 does not compile with libstdc++.
    std::stable_partition(ended.begin(), ended.end(), [&](const ElasticSlot& slot) { return reports_.contains(slot); });
    for (const ElasticSlot& slot : ended) on_ended(slot, lost, at);
    if (phase_ == ElasticPhase::kOver) return;
    hosts_.blacklist(host, at.now);
    on_hosts_changed(at);
  }

  void on_notice_failed(const ElasticSlot& slot, ElasticTime at) {
    if (notice_due_ && !generation_.plan.empty() && generation_.plan.front().slot == slot) {
      notice_due_ = std::min(*notice_due_, at.now + kNoticePause);
    }
  }

  void tick(ElasticTime at) {
    if (phase_ == ElasticPhase::kOver) return;
    if (hosts_.recover(at.now)) on_hosts_changed(at);
    if (phase_ == ElasticPhase::kWaiting && at.now >= waiting_until_) {
      const int needed = is_first_start() ? limits_.np : limits_.min_np;
      return finish(ElasticEnd::kTooFewSlots, too_few_slots(needed));
    }
    if (phase_ == ElasticPhase::kSettling && at.now >= settle_at_) settle(at);
    if (phase_ == ElasticPhase::kBarrier && is_due(late_at_, at)) stop_late(at);
    if (is_due(notice_due_, at)) consider_notice(at);
    if (is_due(leave_by_, at)) stop_leavers(at);
  }

  std::optional<base::MonotonicTime> deadline() const {
    if (phase_ == ElasticPhase::kOver) return std::nullopt;
    std::optional<base::MonotonicTime> next = hosts_.next_recovery();
    if (phase_ == ElasticPhase::kWaiting) keep_earlier(next, waiting_until_);
    if (phase_ == ElasticPhase::kSettling) keep_earlier(next, settle_at_);
    if (phase_ == ElasticPhase::kBarrier) keep_earlier(next, late_at_);
    keep_earlier(next, notice_due_);
    keep_earlier(next, leave_by_);
    return next;
  }

  std::vector<ElasticSlot> missing() const {
    if (phase_ == ElasticPhase::kBarrier) return reports_.missing();
    std::vector<ElasticSlot> missing;
    for (const int rank : awaited_) missing.push_back(generation_.plan[static_cast<std::size_t>(rank)].slot);
    return missing;
  }

  std::vector<ElasticAction> take_actions() { return std::exchange(actions_, {}); }
  ElasticPhase phase() const { return phase_; }
  const Generation& generation() const { return generation_; }
  int resets() const { return resets_; }
  std::vector<std::string> blacklisted() const { return hosts_.blacklisted(); }
  std::optional<base::MonotonicTime> blacklisted_until(const std::string& host) const {
    return hosts_.blacklisted_until(host);
  }
  std::optional<int> limit_of(const std::string& host) const { return hosts_.limit_of(host); }
  int lacks() const {
    return phase_ == ElasticPhase::kWaiting ? std::max(0, least_slots() - count_slots(hosts_.usable())) : 0;
  }

 private:
  struct Process {
    int born = 0;              // the generation that started it
    bool is_stopping = false;  // StopSlots was sent
    std::optional<base::MonotonicTime> leave_by{};
  };
  struct DeadSlot {
    ElasticSlot slot;
    bool is_ours = false;
  };
  struct Cause {
    ElasticCause cause = ElasticCause::kStart;
    std::string detail{};
    base::MonotonicTime at{};
  };

  bool enter(ElasticEvent event) {
    const auto next = next_phase(phase_, event);
    if (next) phase_ = *next;
    return next.has_value();
  }

  bool is_first_start() const { return generation_.number < 0; }

  // The number of slots that the next generation needs.
  int least_slots() const { return is_first_start() ? std::max(limits_.np, limits_.min_np) : limits_.min_np; }

  static std::string too_few_slots(int needed) {
    return fmt::format(
        "Timed out waiting for minimum number of slots to become available. Please check that you have enough "
        "resources to run at least {} Horovod processes.",
        needed);
  }

  void on_hosts_changed(ElasticTime at) {
    if (phase_ == ElasticPhase::kWaiting) try_plan(at);
    consider_notice(at);
  }

  // A survivor has the state of the training. Only such a process may be rank 0.
  bool is_survivor(const ElasticSlot& slot) const {
    const auto process = processes_.find(slot);
    return process != processes_.end() && !process->second.is_stopping && !process->second.leave_by;
  }

  // Puts the first host whose slot 0 survived in front. False if there is none, but the state of the training is
  // needed.
  bool put_survivor_first(std::vector<ElasticHost>& hosts) const {
    if (!has_state_) return true;
    const auto first = std::ranges::find_if(hosts, [&](const ElasticHost& host) {
      return is_survivor({host.name, 0});
    });
    if (first == hosts.end()) return false;
    std::rotate(hosts.begin(), first, first + 1);
    return true;
  }

  void try_plan(ElasticTime at) {
    std::vector<ElasticHost> hosts = hosts_.usable();
    if (count_slots(hosts) < least_slots()) return;
    if (!put_survivor_first(hosts)) {
      return finish(ElasticEnd::kNoSurvivor, kNoSurvivorText);
    }
    auto plan = make_elastic_plan(hosts, limits_.min_np, limits_.max_np);
    if (!plan.ok() || has_old_process(*plan)) return;  // the next change of hosts or end of a process tries again
    hosts_.put_first(plan->front().slot.host);
    begin(std::move(*plan), at);
  }

  // Whether a slot of the plan still has a process that cannot be in the next world.
  bool has_old_process(const ElasticPlan& plan) const {
    return std::ranges::any_of(plan, [&](const PlannedSlot& planned) {
      return processes_.contains(planned.slot) && !is_survivor(planned.slot);
    });
  }

  void begin(ElasticPlan plan, ElasticTime at) {
    if (!enter(ElasticEvent::kPlanned)) return;
    Generation next{.number = generation_.number + 1,
                    .cause = cause_.cause,
                    .detail = cause_.detail,
                    .caused_at = cause_.at,
                    .old_size = static_cast<int>(world_.size()),
                    .plan = std::move(plan)};
    next.added = hosts_only_in(next.plan, world_);
    next.lost = hosts_only_in(world_, next.plan);
    generation_ = std::move(next);
    reports_.begin(generation_.plan);
    notice_due_.reset();
    late_at_.reset();
    dead_.clear();
    awaited_.clear();
    std::vector<PlannedSlot> to_start;
    for (const PlannedSlot& planned : generation_.plan) {
      if (!processes_.emplace(planned.slot, Process{.born = generation_.number}).second) continue;
      awaited_.insert(planned.plan.rank);
      to_start.push_back(planned);
    }
    actions_.emplace_back(BeginGeneration{generation_, std::move(to_start)});
    release_if_complete(at);
  }

  void release_if_complete(ElasticTime at) {
    if (!awaited_.empty() || !dead_.empty() || !enter(ElasticEvent::kComplete)) return;
    ReleaseAnswers release{generation_.number, {}};
    const SlotIndex index(generation_.plan);
    for (const ElasticSlot& slot : held_) {
      const PlannedSlot* const planned = index.find(slot);
      if (planned == nullptr) {
        processes_.at(slot).leave_by = at.now + limits_.leave_time;
        keep_earlier(leave_by_, processes_.at(slot).leave_by);
      }
      release.answers.push_back({slot, planned == nullptr ? std::nullopt : std::optional(planned->plan)});
    }
    held_.clear();
    actions_.emplace_back(std::move(release));
    world_ = generation_.plan;
    has_state_ = true;
    if (!reports_.empty()) enter(ElasticEvent::kReported);
    consider_notice(at);
  }

  // A process of the plan ended by itself, or with its host.
  void on_ended(const ElasticSlot& slot, const SlotReport& report, ElasticTime at) {
    switch (phase_) {
      case ElasticPhase::kWaiting:
        return on_ended_waiting(slot, report, at);
      case ElasticPhase::kStarting:
      case ElasticPhase::kSettling:
        return on_ended_starting(slot, report, at);
      case ElasticPhase::kRunning:
      case ElasticPhase::kBarrier:
        return record(slot, report, at);
      case ElasticPhase::kOver:
        return;
    }
  }

  void on_ended_waiting(const ElasticSlot& slot, const SlotReport& report, ElasticTime at) {
    if (!report.is_ours) blacklist(slot.host, at);
    const bool has_survivor =
        std::ranges::any_of(processes_, [&](const auto& each) { return is_survivor(each.first); });
    if (!has_survivor) return finish(ElasticEnd::kNoSurvivor, kNoSurvivorText);
    try_plan(at);
  }

  void on_ended_starting(const ElasticSlot& slot, const SlotReport& report, ElasticTime at) {
    const PlannedSlot* const planned = find_slot(generation_.plan, slot);
    if (planned == nullptr) return;
    reports_.add(slot, report);
    awaited_.erase(planned->plan.rank);
    if (reports_.is_complete()) return finish_starting();
    // A program that needs no Horovod ends with 0 before it joins a world.
    if (report.kind == Kind::kSucceeded && !has_state_) return release_if_complete(at);
    if (phase_ == ElasticPhase::kStarting) settle_at_ = at.now + limits_.settle_time;
    enter(ElasticEvent::kProcessLost);
    dead_.push_back({slot, report.is_ours});
  }

  void finish_starting() {
    const auto end = reports_.end();
    if (end) finish(*end, {});
  }

  // The processes that ended while answers were held leave the plan. Survivors do not notice.
  void settle(ElasticTime at) {
    if (!has_state_ && reports_.any(Kind::kSucceeded)) return finish(ElasticEnd::kFailed, {});
    if (!enter(ElasticEvent::kSettled)) return;
    cause_ = {ElasticCause::kNewProcess, format_slot(dead_.front().slot), at.now};
    waiting_until_ = at.now + limits_.elastic_timeout;
    for (const DeadSlot& dead : dead_) {
      if (!dead.is_ours) drop(dead.slot, at);
    }
    std::vector<ElasticSlot> restarted;
    for (const auto& [slot, process] : processes_) {
      if (process.born == generation_.number && !process.is_stopping) restarted.push_back(slot);
    }
    stop(std::move(restarted), "its world changes before it is complete");
    dead_.clear();
    awaited_.clear();
    if (reports_.are_all_hosts(hosts_.blacklisted())) return finish(ElasticEnd::kBlacklisted, {});
    try_plan(at);
  }

  // If old processes run on the slots below, only this slot leaves. Otherwise its host does.
  void drop(const ElasticSlot& slot, ElasticTime at) {
    bool has_survivors_below = false;
    bool has_survivors_above = false;
    for (const auto& [other, process] : processes_) {
      if (other.host != slot.host || process.born == generation_.number || !is_survivor(other)) continue;
      (other.local_rank < slot.local_rank ? has_survivors_below : has_survivors_above) = true;
    }
    if (has_survivors_below && !has_survivors_above) {
      hosts_.limit(slot.host, slot.local_rank);
    } else {
      blacklist(slot.host, at);
    }
  }

  void blacklist(const std::string& host, ElasticTime at) {
    hosts_.blacklist(host, at.now);
    std::vector<ElasticSlot> slots;
    for (const auto& [slot, process] : processes_) {
      if (slot.host == host && !process.is_stopping) slots.push_back(slot);
    }
    stop(std::move(slots), fmt::format("host {} is black-listed", host));
  }

  void stop(std::vector<ElasticSlot> slots, std::string why) {
    if (slots.empty()) return;
    for (const ElasticSlot& slot : slots) {
      processes_.at(slot).is_stopping = true;
      processes_.at(slot).leave_by.reset();
      held_.erase(slot);
    }
    actions_.emplace_back(StopSlots{std::move(slots), std::move(why)});
  }

  void record(const ElasticSlot& slot, const SlotReport& report, ElasticTime at) {
    if (hosts_.is_blacklisted(slot.host) || !reports_.add(slot, report)) return;
    enter(ElasticEvent::kReported);
    if (report.kind != Kind::kSucceeded && !late_at_) late_at_ = at.now + limits_.late_time;
    if (generation_.plan.front().slot == slot) notice_due_.reset();
    if (reports_.is_complete()) decide(at);
  }

  // Counts the missing slots as failed, because they have not reported within late_time of the first report.
  void stop_late(ElasticTime at) {
    const std::vector<ElasticSlot> late = reports_.missing();
    late_at_.reset();
    for (const ElasticSlot& slot : late) reports_.add(slot, {.kind = Kind::kFailed, .at = at.now, .exit_code = 1});
    std::vector<ElasticSlot> alive;
    std::ranges::copy_if(late, std::back_inserter(alive), [&](const auto& slot) { return processes_.contains(slot); });
    stop(std::move(alive), "other workers waited too long for it");
    decide(at);
  }

  // All slots have reported.
  void decide(ElasticTime at) {
    if (const auto end = reports_.end()) return finish(*end, {});
    cause_ = cause_of_reset(at);
    for (const std::string& host : reports_.failed_hosts(limits_.abort_window)) blacklist(host, at);
    if (reports_.are_all_hosts(hosts_.blacklisted())) return finish(ElasticEnd::kBlacklisted, {});
    if (limits_.reset_limit && resets_ >= *limits_.reset_limit) {
      return finish(ElasticEnd::kResetLimit,
                    fmt::format("Horovod was shutdown because number of resets during elastic job exceeded limit: {}",
                                *limits_.reset_limit));
    }
    ++resets_;
    if (!enter(ElasticEvent::kReset)) return;
    waiting_until_ = at.now + limits_.elastic_timeout;
    notice_due_.reset();
    noticed_at_.reset();
    try_plan(at);
  }

  Cause cause_of_reset(ElasticTime at) const {
    if (const auto failed = reports_.first(Kind::kFailed)) {
      const auto& [slot, report] = *failed;
      if (report.is_host_lost) return {ElasticCause::kHostLost, slot.host, report.at};
      return {ElasticCause::kFailure, format_slot(slot), report.at};
    }
    if (noticed_at_) return {ElasticCause::kHosts, {}, *noticed_at_};
    const auto ready = reports_.first(Kind::kReady);
    return {ElasticCause::kWorkers, ready ? format_slot(ready->first) : "", ready ? ready->second.at : at.now};
  }

  void finish(ElasticEnd end, std::string message) {
    if (!enter(ElasticEvent::kEnd)) return;
    FinishJob out{.end = end, .message = std::move(message)};
    if (const auto failed = reports_.first(Kind::kFailed)) {
      out.failure = FailedSlot{failed->first, failed->second.exit_code};
      if (out.message.empty()) {
        out.message = fmt::format(
            "Horovod detected that one or more processes exited with non-zero status, thus causing the job to be "
            "terminated. The first process to do so was:\nProcess name: {}\nExit code: {}",
            format_slot(failed->first), failed->second.exit_code);
      }
    }
    held_.clear();
    actions_.emplace_back(std::move(out));
  }

  // Whether a reset now would lead to another world. Too few slots are another world, too.
  bool is_outdated() const {
    std::vector<ElasticHost> hosts = hosts_.usable();
    if (!put_survivor_first(hosts)) return true;
    const auto next = make_elastic_plan(hosts, limits_.min_np, limits_.max_np);
    return !next.ok() || *next != generation_.plan;
  }

  // Only rank 0 hears of changes. It forgets notices that arrive during its own reset, so they are repeated.
  void consider_notice(ElasticTime at) {
    const bool is_released = phase_ == ElasticPhase::kRunning || phase_ == ElasticPhase::kBarrier;
    if (!is_released) return;
    const ElasticSlot& first = generation_.plan.front().slot;
    if (reports_.contains(first) || !is_outdated()) {
      notice_due_.reset();
      return;
    }
    if (last_notice_ && at.now < *last_notice_ + kNoticePause) {
      keep_earlier(notice_due_, *last_notice_ + kNoticePause);
      return;
    }
    const auto wall = std::chrono::duration_cast<std::chrono::seconds>(at.wall.time_since_epoch()).count();
    last_timestamp_ = std::max<std::int64_t>(wall, last_timestamp_ + 1);
    last_notice_ = at.now;
    if (!noticed_at_) noticed_at_ = at.now;
    notice_due_ = at.now + limits_.notice_repeat;
    actions_.emplace_back(NotifyWorker{first, last_timestamp_});
  }

  void stop_leavers(ElasticTime at) {
    std::vector<ElasticSlot> late;
    for (const auto& [slot, process] : processes_) {
      if (is_due(process.leave_by, at)) late.push_back(slot);
    }
    stop(std::move(late), "it is no longer in the job and did not end");
    leave_by_.reset();
    for (const auto& [slot, process] : processes_) keep_earlier(leave_by_, process.leave_by);
  }

  ElasticLimits limits_;
  ElasticHosts hosts_;
  ElasticPhase phase_ = ElasticPhase::kWaiting;
  Generation generation_;
  ElasticPlan world_;       // the plan that was released last
  bool has_state_ = false;  // a world was released, so survivors may have a state
  int resets_ = 0;
  Cause cause_;
  std::map<ElasticSlot, Process> processes_;  // all that were started and have not ended
  std::set<ElasticSlot> held_;                // these wait for an answer
  std::set<int> awaited_;                     // ranks of new processes without a first PUT
  std::vector<DeadSlot> dead_;                // ended while answers were held
  SlotReports reports_;
  base::MonotonicTime waiting_until_;
  base::MonotonicTime settle_at_;
  std::optional<base::MonotonicTime> late_at_;
  std::optional<base::MonotonicTime> leave_by_;  // the earliest of all processes; that process may have ended already
  std::optional<base::MonotonicTime> notice_due_;
  std::optional<base::MonotonicTime> noticed_at_;  // the first notice of this generation
  std::optional<base::MonotonicTime> last_notice_;
  std::int64_t last_timestamp_ = 0;
  std::vector<ElasticAction> actions_;
};

ElasticDriver::ElasticDriver(ElasticLimits limits, ElasticTime at, std::function<double()> random)
    : state_(std::make_unique<State>(limits, at, std::move(random))) {}

ElasticDriver::~ElasticDriver() = default;

void ElasticDriver::set_hosts(const std::vector<ElasticHost>& hosts, ElasticTime at) {
  state_->set_hosts(hosts, at);
}

void ElasticDriver::set_size(int min_np, std::optional<int> max_np, ElasticTime at) {
  state_->set_size(min_np, max_np, at);
}

void ElasticDriver::on_rank_and_size(const ElasticSlot& slot, ElasticTime at) {
  state_->on_rank_and_size(slot, at);
}

void ElasticDriver::on_first_put(int generation, int rank, ElasticTime at) {
  state_->on_first_put(generation, rank, at);
}

void ElasticDriver::on_exit(const ElasticSlot& slot, SlotExit exit, ElasticTime at) {
  state_->on_exit(slot, exit, at);
}

void ElasticDriver::on_host_lost(const std::string& host, ElasticTime at) {
  state_->on_host_lost(host, at);
}

void ElasticDriver::on_notice_failed(const ElasticSlot& slot, ElasticTime at) {
  state_->on_notice_failed(slot, at);
}

void ElasticDriver::tick(ElasticTime at) {
  state_->tick(at);
}

std::optional<base::MonotonicTime> ElasticDriver::deadline() const {
  return state_->deadline();
}

std::vector<ElasticAction> ElasticDriver::take_actions() {
  return state_->take_actions();
}

ElasticPhase ElasticDriver::phase() const {
  return state_->phase();
}

const Generation& ElasticDriver::generation() const {
  return state_->generation();
}

int ElasticDriver::resets() const {
  return state_->resets();
}

std::vector<ElasticSlot> ElasticDriver::missing() const {
  return state_->missing();
}

int ElasticDriver::lacks() const {
  return state_->lacks();
}

std::optional<base::MonotonicTime> ElasticDriver::blacklisted_until(const std::string& host) const {
  return state_->blacklisted_until(host);
}

std::optional<int> ElasticDriver::limit_of(const std::string& host) const {
  return state_->limit_of(host);
}

std::vector<std::string> ElasticDriver::blacklisted() const {
  return state_->blacklisted();
}

}  // namespace muster::launcherd::elastic
