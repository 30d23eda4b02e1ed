// RunningJob, and functions that build the changes which end a job. running_job_live.cc has what only jobs do whose
// ranks live on.
// Read it in this order: start, open_output, make_job, make_agents, Steps (events become records), on_finished, end.
#include "launcherd/daemon/running_job.h"

#include <algorithm>
#include <csignal>
#include <numeric>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "base/shortened.h"
#include "base/strings.h"
#include "launcherd/run/job_record.h"
#include "model/exit_code.h"
#include "model/host_group.h"
#include "proto/bound_rank.h"
#include "proto/convert.h"
#include "proto/event_json.h"
#include "proto/hang_convert.h"
#include "proto/stored_event.h"

namespace muster::launcherd::inline daemon {
namespace {

constexpr std::size_t kSecretBytes = 32;
// Limit on the bytes of rank bindings in one answer. job_view.h has the limit for the rest.
constexpr std::size_t kMostBindings = std::size_t{512} << 10;

model::JobTrigger trigger_of(model::JobState final_state) {
  switch (final_state) {
    case model::JobState::kSucceeded:
      return model::JobTrigger::kEndWell;
    case model::JobState::kKilled:
      return model::JobTrigger::kEndKilled;
    case model::JobState::kLost:
      return model::JobTrigger::kLoseTrack;
    default:
      return model::JobTrigger::kEndBadly;
  }
}

}  // namespace

RankStep step_of(const model::RankEnd& end, int attempt, model::RankState to) {
  RankStep step{.attempt = attempt, .rank = end.rank, .to = to};
  step.host = end.host;
  step.pid = end.pid;
  step.exit_code = end.exit_code;
  step.signal = end.signal;
  step.detail = base::shortened(base::valid_utf8(end.detail.empty() ? model::describe_mpi(end) : end.detail),
                                proto::kLongestDetail);
  return step;
}

std::string stored_reason(std::string_view reason) {
  return base::shortened(base::valid_utf8(reason), proto::kLongestReason);
}

std::string job_directory(const JobSurroundings& surroundings, const base::JobId& id) {
  return fmt::format("{}/{}", surroundings.jobs_directory, id.str());
}

std::string journal_path(const JobSurroundings& surroundings, const base::JobId& id) {
  return job_directory(surroundings, id) + "/output";
}

Batch end_of_job(const base::JobId& id, int attempt, model::JobState state, const std::string& reason,
                 const model::JobEnded& ended, base::WallTime now) {
  const std::string why = stored_reason(reason);
  return {NewEvent{.job = id,
                   .time = now,
                   .message = proto::stored_event(model::JobStateChanged{state, why}, now),
                   .job_step = JobStep{.to = state, .reason = why, .attempt = attempt, .exit_code = ended.exit_code}},
          NewEvent{.job = id, .time = now, .message = proto::stored_event(ended, now)}};
}

Batch end_without_ranks(const base::JobId& id, int attempt, model::JobState state, int exit_code,
                        const std::string& reason, base::WallTime now, std::optional<bool> is_retryable) {
  model::JobEnded ended;
  ended.job_id = id.str();
  ended.exit_code = exit_code;
  ended.is_retryable = is_retryable;
  return end_of_job(id, attempt, state, reason, ended, now);
}

RunningJob::RunningJob(const JobSurroundings& surroundings, base::JobId id, model::Placement placement,
                       RunningJobOwner owner)
    : surroundings_(surroundings),
      id_(std::move(id)),
      owner_(std::move(owner)),
      secret_(base::random_hex(kSecretBytes)) {
  set_placement(std::move(placement));
}

void RunningJob::set_placement(model::Placement placement) {
  placement_ = std::move(placement);
  hosts_.clear();
  host_index_.clear();
  bound_.clear();
  rank_states_.clear();
  host_of_rank_.assign(static_cast<std::size_t>(placement_.size), 0);
  for (const model::PlacedHost& placed : placement_.hosts) {
    const std::size_t index = hosts_.size();
    v1::HostStatus& host = hosts_.emplace_back();
    host.set_name(placed.host.name);
    host.set_ranks(static_cast<int>(placed.ranks.size()));
    host_index_.emplace(placed.host.name, index);
    for (const model::PlacedRank& rank : placed.ranks) host_of_rank_[static_cast<std::size_t>(rank.rank)] = index;
  }
}

RunningJob::RunningJob(const JobSurroundings& surroundings, ResumedJob resumed, RunningJobOwner owner)
    : RunningJob(surroundings, resumed.job.id, resumed.recovery.placement, std::move(owner)) {
  state_ = resumed.job.state;
  attempt_ = resumed.recovery.attempt;
  secret_ = resumed.recovery.secret;
  first_of_ = resumed.recovery.first_of;
  stop_cause_ = resumed.recovery.stop;
  stops_at_once_ = resumed.recovery.stops_at_once;
  if (stop_cause_ != StopCause::kNone) {
    stop_reason_ = resumed.recovery.stop_reason.empty() ? resumed.job.reason : resumed.recovery.stop_reason;
  }
  if (resumed.recovery.generation) {
    generation_ = resumed.recovery.generation->state;
    wait_ = resumed.recovery.generation->wait;
    last_change_ = resumed.recovery.generation->last_change;
  }
  for (const StoredRank& rank : resumed.ranks) known_ranks_.emplace(rank.rank, rank.state);
  resumed_ = std::move(resumed);
}

RunningJob::~RunningJob() = default;

NewRecovery RunningJob::recovery() const {
  return {.job = id_,
          .content = recovery_bytes({.attempt = attempt_,
                                     .placement = slots_ ? slots_->held() : placement_,
                                     .secret = secret_,
                                     .stop = stop_cause_,
                                     .stops_at_once = stops_at_once_,
                                     .stop_reason = stop_reason_,
                                     .first_of = first_of_,
                                     .generation = generation()})};
}

NewEvent RunningJob::starting(base::WallTime now) const {
  const auto moved = model::next_state(model::JobState::kQueued, model::JobTrigger::kStart);
  return {.job = id_,
          .time = now,
          .message = proto::stored_event(model::JobStarting{id_.str(), placement_}, now),
          .job_step = JobStep{.to = moved->to, .reason = std::string(moved->reason)}};
}

void RunningJob::start(model::JobSpec job, const proto::LaunchRequests& wishes) {
  if (!stop_reason_.empty() && !resumed_) {
    start_failed(base::ok_status());
    return;
  }
  base::Status failed = open_output();
  if (failed.ok() && job.live && resumed_) {
    is_held_ = wishes.hold;
    failed = abandon(job);
  } else if (failed.ok()) {
    make_job(std::move(job), wishes);
    failed = job_->start();
  }
  if (!failed.ok()) start_failed(failed);
}

// Ends a job that runs nothing yet.
void RunningJob::start_failed(const base::Status& why) {
  model::JobEnded ended;
  ended.job_id = id_.str();
  if (!stop_reason_.empty()) {
    ended.exit_code = stop_cause_ == StopCause::kTimeout ? model::kTimedOut : model::kTerminated;
    end(model::JobState::kKilled, stop_reason_, ended);
    return;
  }
  ended.exit_code = model::kMusterFailed;
  end(model::JobState::kFailed, why.message(), ended);
}

void RunningJob::start_refused(const base::Status& why) {
  state_ = model::JobState::kQueued;
  start_failed(why);
}

void RunningJob::stop_before_start(const std::string& reason) {
  stop(StopCause::kTerminate, reason);
  start_failed(base::ok_status());
}

base::Status RunningJob::open_output() {
  MUSTER_RETURN_IF_ERROR(base::make_private_directory(job_directory(surroundings_, id_)));
  const std::string path = journal_path(surroundings_, id_);
  LogReader* const logs = surroundings_.logs;
  MUSTER_ASSIGN_OR_RETURN(
      auto journal, JournalSink::open(path, surroundings_.clock,
                                      [logs, path](std::uint64_t readable) { logs->journal_changed(path, readable); }));
  if (const std::string& damage = journal->past().damage; !damage.empty()) {
    surroundings_.on_line(fmt::format("job {}: {}", id_.str(), damage));
  }
  sink_ = std::make_unique<JournalOutput>(
      std::move(journal), [on_line = surroundings_.on_line, id = id_.str()](const base::Status& failure) {
        on_line(fmt::format("job {}: output is missing from its journal: {}", id, failure.message()));
      });
  return base::ok_status();
}

void RunningJob::make_job(model::JobSpec job, const proto::LaunchRequests& wishes) {
  is_held_ = wishes.hold;
  live_ = job.live;
  if (live_) slots_.emplace(placement_, live_->cooldown.has_value());
  PooledJob pooled;
  pooled.job_id = id_.str();
  pooled.contain = wishes.contain;
  pooled.lease = job.lease;
  pooled.hold = wishes.hold;
  LaunchOptions options;
  options.job_id = id_.str();
  options.attempt = attempt_;
  options.ends_at = wishes.deadline;
  options.never_staged = surroundings_.state_directory;
  if (surroundings_.traces != nullptr) options.trace = surroundings_.traces->context_of(id_.str());
  options.may_leave = false;  // the next job gets the slots as soon as this job has ended
  options.shares = [this](const std::vector<KnownHost>& hosts, ShareAnswer answer) {
    record_merges(hosts);
    if (!owner_.settle_shares) return answer(placement_);
    owner_.settle_shares(hosts, [this, answer = std::move(answer)](const base::Status& status) {
      answer(status.ok() ? base::Result<model::Placement>(placement_) : status);
    });
  };
  if (live_) options.live_share = [this](const std::string& host) { return live_share(host); };
  std::shared_ptr<const ResumedGeneration> generation;
  if (resumed_) {
    if (resumed_->recovery.generation) {
      generation = std::make_shared<const ResumedGeneration>(*resumed_->recovery.generation);
    }
    options.resumes = true;
    options.resumed_stop = stop_cause_;
    // With a signal, the ranks have their time after it first.
    const bool is_stopping = state_ == model::JobState::kStopping || !job.end_signal;
    if (stop_cause_ == StopCause::kNone && generation != nullptr && generation->resize_to && !generation->wait &&
        is_stopping) {
      options.resumed_stop = StopCause::kResize;
    }
    options.resumed_at_once = stops_at_once_;
    options.resumed_first_of = first_of_;
    if (job.timeout && resumed_->job.started) {
      const auto spent =
          std::chrono::duration_cast<std::chrono::milliseconds>(surroundings_.clock->wall() - *resumed_->job.started);
      job.timeout = std::max(*job.timeout - spent, std::chrono::milliseconds(1));
    }
  }
  JobObserver* const observer = this;
  GenerationHosts* const hosts = this;
  OutputSink* sink = sink_.get();
  if (!job.failure.progress_text.empty()) {
    progress_ = std::make_unique<ProgressSink>(sink, job.failure.progress_text);
    sink = progress_.get();
  }
  job_ = std::make_unique<RestartingJob>(
      *surroundings_.loop, *surroundings_.clock,
      JobSetup{.job = std::move(job),
               .placement = placement_,
               .options = std::move(options),
               .environment = base::Environment(),
               .sink = sink,
               .observer = observer,
               .take_progress = [this] { return progress_ != nullptr && progress_->take_progress(); },
               .hosts = hosts,
               .resumed_generation = std::move(generation)},
      [this, pooled = std::move(pooled)](int attempt) { return make_agents(pooled, attempt); });
}

// Stores which names mean the same host, before any rank starts. The next launcherd must know which agents have ranks.
void RunningJob::record_merges(const std::vector<KnownHost>& hosts) {
  if (live_ || has_merged_hosts() || std::ranges::all_of(hosts, &std::string::empty, &KnownHost::kept_as)) return;
  first_of_.resize(placement_.hosts.size());
  std::iota(first_of_.begin(), first_of_.end(), 0);
  for (const KnownHost& host : hosts) {
    const auto own = host_index_.find(host.name);
    const auto first = host_index_.find(host.kept_as);
    if (own == host_index_.end() || first == host_index_.end()) continue;
    first_of_[own->second] = static_cast<int>(first->second);
  }
  record({recovery()});
}

std::shared_ptr<JobAgents> RunningJob::make_agents(PooledJob pooled, int attempt) const {
  pooled.attempt = attempt;
  pooled.secret = secret_;
  if (resumed_ && resumed_->recovery.attempt == attempt) {
    pooled.resumes = true;
    pooled.was_running = state_ != model::JobState::kStarting || !known_ranks_.empty();
    if (sink_->past().attempt == attempt) {
      pooled.with_past = [past = sink_->past()](ExpectedAgent expected) {
        const auto last = past.last_delivered.find(expected.agent);
        if (last != past.last_delivered.end()) expected.last_delivered = last->second;
        const auto taken = past.delivered_bytes.find(expected.agent);
        if (taken != past.delivered_bytes.end()) expected.delivered_bytes = taken->second;
        const bool is_finished = past.finished_agents.contains(expected.agent);
        std::erase_if(expected.ranks, [&](int rank) { return is_finished || past.ended_ranks.contains(rank); });
        return expected;
      };
    } else {
      sink_->begin_attempt(attempt);  // the disk has lost the record of the attempt's beginning
    }
  }
  return surroundings_.agents_for ? surroundings_.agents_for(std::move(pooled))
                                  : surroundings_.pool->agents_for(std::move(pooled));
}

void RunningJob::stop(StopCause cause, const std::string& reason) {
  const bool is_again = !stop_reason_.empty();
  const bool is_new_stop = !stops_at_once_;
  if (!is_again) {
    stop_reason_ = reason;
    stop_cause_ = cause;
  }
  stops_at_once_ = is_again;
  if (is_new_stop && !is_over_) record({recovery()});
  if (job_ != nullptr && !is_over_) job_->stop(cause);
  if (abandoned_ != nullptr && !is_over_ && is_again) abandoned_->stop_at_once();
}

base::Status RunningJob::signal_ranks(int signo) {
  MUSTER_RETURN_IF_ERROR(check_signal(signo));
  if (job_ == nullptr || is_over_ || state_ != model::JobState::kRunning) {
    return base::failed_precondition("job {} is {}: its ranks are not running", id_.str(), model::name_of(state_));
  }
  job_->signal_ranks(signo);
  return base::ok_status();
}

base::Status RunningJob::stacks(const StackQuery& query, std::function<void(v1::ProcessStack)> on_process,
                                base::Loop::Task done) {
  if (job_ == nullptr || is_over_) {
    return base::failed_precondition("job {} is {}: no rank is running", id_.str(), model::name_of(state_));
  }
  return job_->stacks(query, std::move(on_process), std::move(done));
}

base::Result<ExecControls> RunningJob::exec(const v1::ExecRequest& first, ExecCaller caller) {
  if (job_ == nullptr || is_over_) {
    return base::failed_precondition("job {} is {}: no rank is running", id_.str(), model::name_of(state_));
  }
  return job_->exec(first, std::move(caller));
}

base::Status RunningJob::explain_hang(std::function<void(const model::HangReport&)> done) {
  if (job_ == nullptr || is_over_) {
    return base::failed_precondition("job {} is {}: no rank is running", id_.str(), model::name_of(state_));
  }
  return job_->explain_hang(std::move(done));
}

std::string RunningJob::host_of(int rank) const {
  if (rank < 0 || rank >= placement_.size) return "";
  return hosts_[host_of_rank_[static_cast<std::size_t>(rank)]].name();
}

void RunningJob::set_share(const std::string& host, const std::optional<model::HostShare>& share) {
  const auto found = host_index_.find(host);
  if (found != host_index_.end()) placement_.hosts[found->second].share = share;
  if (slots_) slots_->set_share(host, share);
}

const std::vector<model::FailedHost>& RunningJob::failed_hosts() const {
  static const std::vector<model::FailedHost> kNone;
  if (wait_) return wait_->failed;
  if (slots_) return live_failed_;
  return generation_ ? generation_->failed : kNone;
}

void RunningJob::describe(v1::Job& job) const {
  job.set_last_change(last_change_);
  if (hang_) *job.mutable_hang() = *hang_;
  job.mutable_late()->Assign(late_.begin(), late_.end());
  if (wrong_world_) *job.mutable_wrong_world() = *wrong_world_;
  if (first_collective_) job.set_first_collective_ms(first_collective_->count());
  proto::set_failed_hosts(failed_hosts(), *job.mutable_failed_hosts());
  for (const v1::HostStatus& host : hosts_) *job.add_hosts() = host;
  for (v1::RankStatus& rank : *job.mutable_ranks()) {
    if (rank.host().empty()) rank.set_host(host_of(rank.rank()));
  }
  std::size_t bytes = 0;
  for (int i = 0; i < job.ranks_size(); ++i) {
    const auto number = static_cast<std::size_t>(job.ranks(i).rank());
    if (number >= bound_.size()) continue;
    proto::set_binding(bound_[number], *job.mutable_ranks(i));
    bytes += job.ranks(i).binding().ByteSizeLong();
    if (bytes <= kMostBindings || i == 0) continue;
    // The client asks again, starting at the first missing rank.
    job.mutable_ranks()->DeleteSubrange(i, job.ranks_size() - i);
  }
}

// Moves the state by the state table. nullopt if the state does not change.
std::optional<JobStep> RunningJob::step(model::JobTrigger trigger, const std::string& reason) {
  const auto moved = model::next_state(state_, trigger);
  if (!moved) return std::nullopt;
  state_ = moved->to;
  return JobStep{.to = moved->to,
                 .reason = reason.empty() ? std::string(moved->reason) : stored_reason(reason),
                 .attempt = attempt_};
}

void RunningJob::record_event(const model::JobEvent& event, std::optional<JobStep> job_step,
                              std::optional<RankStep> rank_step) {
  const base::WallTime now = surroundings_.clock->wall();
  record({NewEvent{.job = id_,
                   .time = now,
                   .message = proto::stored_event(event, now),
                   .job_step = std::move(job_step),
                   .rank_step = std::move(rank_step)}});
}

// Records the changes after all events before them.
void RunningJob::record(Batch batch) {
  record_gathered();
  owner_.record(std::move(batch));
}

// Records the event together with others of this turn of the loop, because a job may have many hosts and ranks.
void RunningJob::record_soon(const model::JobEvent& event, std::optional<RankStep> rank_step) {
  const base::WallTime now = surroundings_.clock->wall();
  if (gathered_.empty()) surroundings_.loop->post(gate_.wrap([this] { record_gathered(); }));
  gathered_.push_back({.message = proto::stored_event(event, now), .rank_step = std::move(rank_step)});
  gathered_at_ = now;
  if (gathered_.size() == kMostGrouped) record_gathered();
}

// Returns false for a step that the store would refuse, because it refuses a group of events as a whole.
bool RunningJob::may_gather(const RankStep& step) {
  if (live_ || step.rank < 0 || step.rank >= model::kMaxRanks) return false;
  const auto rank = static_cast<std::size_t>(step.rank);
  if (rank >= rank_states_.size()) {
    rank_states_.resize(std::max(rank + 1, static_cast<std::size_t>(placement_.size)), model::RankState::kWaiting);
    for (const auto& [known, state] : known_ranks_) {
      if (static_cast<std::size_t>(known) < rank_states_.size()) rank_states_[static_cast<std::size_t>(known)] = state;
    }
  }
  if (!model::can_follow(rank_states_[rank], step.to)) return false;
  rank_states_[rank] = step.to;
  return true;
}

void RunningJob::record_gathered() {
  if (gathered_.empty()) return;
  std::vector<NewEvents::Event> events = std::exchange(gathered_, {});
  if (events.size() > 1) return owner_.record({NewEvents{id_, gathered_at_, std::move(events)}});
  owner_.record({NewEvent{.job = id_,
                          .time = gathered_at_,
                          .message = std::move(events.front().message),
                          .rank_step = std::move(events.front().rank_step)}});
}

// Only for jobs resumed after a launcherd restart: their hosts send no second HostUp, so mark them as up here.
void RunningJob::on_progress(int /*up*/, int /*total*/, const std::vector<std::string>& waiting) {
  if (!resumed_) return;
  const std::unordered_set<std::string_view> missing(waiting.begin(), waiting.end());
  for (v1::HostStatus& host : hosts_) {
    if (host.up() || missing.contains(host.name())) continue;
    host.set_up(true);
    host.set_link("dial");
  }
}

void RunningJob::on_running() {
  auto moved = step(model::JobTrigger::kAllUp, "");
  if (!moved) return;
  const std::string reason = moved->reason;
  record_event(model::JobStateChanged{model::JobState::kRunning, reason}, std::move(moved), {});
}

void RunningJob::on_bound(const std::vector<model::BoundRank>& ranks) {
  bound_ = ranks;
  if (slots_) narrow_shares();
}

void RunningJob::on_warning(const std::string& line) {
  surroundings_.on_line(fmt::format("job {}: {}", id_.str(), line));
}

struct RunningJob::Steps {
  RunningJob& running;
  const model::JobEvent& event;

  v1::HostStatus* host(const std::string& name) const {
    const auto found = running.host_index_.find(name);
    return found == running.host_index_.end() ? nullptr : &running.hosts_[found->second];
  }
  void operator()(const model::HostUp& up) const {
    if (v1::HostStatus* const status = host(up.host)) {
      status->set_up(true);
      status->set_link(base::valid_utf8(up.link));
      status->set_containment(base::valid_utf8(up.containment));
    }
    running.record_soon(event, {});
  }
  void operator()(const model::HostSuspect& suspect) const {
    if (v1::HostStatus* const status = host(suspect.host)) status->set_suspect(suspect.suspect);
    running.record_event(event, {}, {});
  }
  // Returns whether an earlier launcherd has stored this step already.
  bool is_known(int rank, bool is_end) const {
    const auto known = running.known_ranks_.find(rank);
    return known != running.known_ranks_.end() && (!is_end || model::is_final(known->second));
  }
  void operator()(const model::RankUp& up) const {
    if (is_known(up.rank, false)) return;
    RankStep step{.attempt = running.attempt_, .rank = up.rank, .to = model::RankState::kRunning};
    step.host = running.host_of(up.rank);
    step.pid = up.pid;
    if (running.live_) running.live_ranks_.insert_or_assign(up.rank, step);
    if (!running.may_gather(step)) return running.record_event(event, {}, std::move(step));
    running.record_soon(event, std::move(step));
  }
  void operator()(const model::RankEnd& end) const {
    if (is_known(end.rank, true)) return;
    running.live_ranks_.erase(end.rank);
    running.has_lost_host_ = running.has_lost_host_ || end.kind == model::EndKind::kHostLost;
    running.has_failed_rank_ = running.has_failed_rank_ || (end.failed() && end.kind != model::EndKind::kStopped);
    const auto from = end.pid > 0 ? model::RankState::kRunning : model::RankState::kWaiting;
    const auto to = model::next_state(from, model::trigger_of(end));
    auto step = to ? std::optional(step_of(end, running.attempt_, *to)) : std::nullopt;
    const bool is_expected = step && running.may_gather(*step);
    // The agent of a lost host may be dropped before this event. It keeps its history until that is recorded.
    if (!is_expected || end.kind == model::EndKind::kHostLost) return running.record_event(event, {}, std::move(step));
    running.record_soon(event, std::move(step));
  }
  void operator()(const model::JobStopping& stopping) const {
    // An earlier launcherd has stored this event.
    if (running.resumed_ && running.state_ == model::JobState::kStopping) return;
    const auto size = running.job_ == nullptr ? std::nullopt : running.job_->resizes_to();
    std::string by_itself = stopping.reason;
    if (size) {
      const std::string& why = running.job_->resize_reason().text;
      by_itself = fmt::format("{}resized to {} ranks", why.empty() ? "" : why + "; ", *size);
    }
    const std::string& reason = running.stop_reason_.empty() ? by_itself : running.stop_reason_;
    running.record_event(model::JobStopping{reason}, running.step(model::JobTrigger::kStop, reason), {});
  }
  void operator()(const model::JobRestarting& restarting) const {
    running.owner_.on_generation(GenerationCause::kFailure);
    running.first_collective_.reset();
    running.hang_.reset();
    running.wrong_world_.reset();
    running.late_.clear();
    running.record_generation(event, restarting.reason);
  }
  void operator()(const model::GenerationBegan& began) const {
    if (running.live_) return running.begin_live_generation(began);
    running.owner_.on_generation(running.cause_of_generation());
    running.last_change_ = stored_reason(model::describe(began));
    running.first_collective_.reset();
    running.hang_.reset();
    running.wrong_world_.reset();
    running.late_.clear();
    running.record_generation(event, running.last_change_);
  }
  void operator()(const model::FirstCollectiveEnded& ended) const {
    running.first_collective_ = ended.elapsed;
    if (running.owner_.on_first_collective) running.owner_.on_first_collective(ended.elapsed);
    running.record_event(event, {}, {});
  }
  void operator()(const model::HangReported& hang) const {
    running.hang_ = proto::to_proto(hang.report);
    running.on_warning("it seems to hang: " + hang.report.cause);
    running.record_event(event, {}, {});
  }
  void operator()(const model::WrongWorld& wrong) const {
    running.wrong_world_ = proto::make_event(wrong, 0, base::WallTime()).wrong_world();
    running.record_event(event, {}, {});
  }
  // No job of launcherd leaves hosts out (docs/adr/0066).
  void operator()(const model::HostsLeftOut&) const { running.record_event(event, {}, {}); }
  void operator()(const model::LateHost&) const { running.record_event(event, {}, {}); }
  // JobManager creates these events.
  void operator()(const model::NotifyFailed&) const {}
  void operator()(const model::ElementChanged&) const {}
  // RunningJob creates these events itself.
  void operator()(const model::JobStarting&) const {}
  void operator()(const model::JobEnded&) const {}
  void operator()(const model::JobStateChanged&) const {}
};

void RunningJob::on_event(const model::JobEvent& event) {
  std::visit(Steps{*this, event}, event);
}

GenerationCause cause_of(ResizeCause cause) {
  switch (cause) {
    case ResizeCause::kAsked:
      break;
    case ResizeCause::kPreemption:
      return GenerationCause::kPreemption;
    case ResizeCause::kGrowth:
      return GenerationCause::kGrowth;
  }
  return GenerationCause::kResize;
}

GenerationCause RunningJob::cause_of_generation() const {
  if (job_ == nullptr || !job_->is_resizing()) return GenerationCause::kHostLost;
  return cause_of(job_->resize_reason().cause);
}

// Stores the event together with what the next launcherd needs to find this generation.
void RunningJob::record_generation(const model::JobEvent& event, const std::string& reason) {
  const base::WallTime now = surroundings_.clock->wall();
  record({recovery(), NewEvent{.job = id_,
                               .time = now,
                               .message = proto::stored_event(event, now),
                               .job_step = step(model::JobTrigger::kRestart, reason)}});
}

ResumedGeneration RunningJob::generation() const {
  ResumedGeneration generation;
  if (generation_) generation.state = *generation_;
  if (!generation_) generation.state.counted = attempt_;
  if (!generation_) generation.state.wanted = placement_.size;
  generation.wait = wait_;
  generation.last_change = last_change_;
  if (job_ == nullptr) {
    if (!resumed_ || !resumed_->recovery.generation) return generation;
    generation.resize_to = resumed_->recovery.generation->resize_to;
    generation.resize_hosts = resumed_->recovery.generation->resize_hosts;
    generation.resize_reason = resumed_->recovery.generation->resize_reason;
  } else if (generation.resize_to = job_->resizes_to(); generation.resize_to) {
    generation.resize_hosts = job_->resize_hosts();
    generation.resize_reason = job_->resize_reason();
  }
  return generation;
}

int RunningJob::size() const {
  return slots_ ? slots_->size() : placement_.size;
}

int RunningJob::size_on(const std::string& host) const {
  if (slots_) return slots_->listed_on(host);
  const auto found = host_index_.find(host);
  return found == host_index_.end() ? 0 : static_cast<int>(placement_.hosts[found->second].ranks.size());
}

model::Placement RunningJob::allocation() const {
  if (slots_) return slots_->held();
  model::Placement allocation = placement_;
  if (!wait_) return allocation;
  std::erase_if(allocation.hosts, [this](const model::PlacedHost& placed) {
    return std::ranges::find(wait_->end.bad_hosts, placed.host.name) != wait_->end.bad_hosts.end();
  });
  return allocation;
}

model::Placement RunningJob::allocation_on(const std::string& host) const {
  model::Placement part{.size = placement_.size, .hosts = {}, .roles = placement_.roles};
  if (slots_ || wait_) {
    part = allocation();
    std::erase_if(part.hosts, [&](const model::PlacedHost& placed) { return placed.host.name != host; });
    return part;
  }
  const auto found = host_index_.find(host);
  if (found != host_index_.end()) part.hosts.push_back(placement_.hosts[found->second]);
  return part;
}

std::vector<model::HostSpec> RunningJob::offers(Availability when) {
  return owner_.offers ? owner_.offers(when) : std::vector<model::HostSpec>();
}

// Hosts with as many ranks as before keep their shares. All other shares are decided when the hosts are up.
void RunningJob::change(const GenerationChange& change) {
  const model::Placement before = allocation();
  model::Placement after = change.placement;
  for (model::PlacedHost& placed : after.hosts) {
    const auto old = std::ranges::find_if(
        before.hosts, [&](const model::PlacedHost& each) { return each.host.name == placed.host.name; });
    placed.share.reset();
    if (old != before.hosts.end() && old->ranks.size() == placed.ranks.size()) placed.share = old->share;
  }
  if (after.roles.empty()) after.roles = placement_.roles;
  attempt_ = change.number;
  secret_ = base::random_hex(kSecretBytes);
  first_of_.clear();
  known_ranks_.clear();
  resumed_.reset();
  generation_ = change.state;
  wait_.reset();
  set_placement(std::move(after));
  if (owner_.reallocate) owner_.reallocate({before, placement_});
  if (owner_.on_waiting) owner_.on_waiting(false);
}

void RunningJob::when_stored(Stored done) {
  record_gathered();
  owner_.when_stored({recovery()}, std::move(done));
}

void RunningJob::wait(const GenerationWait& wait, const std::string& why) {
  const model::Placement before = allocation();
  wait_ = wait;
  const model::Placement after = allocation();
  if (owner_.reallocate) owner_.reallocate({before, after});
  if (owner_.on_waiting) owner_.on_waiting(true);
  for (v1::HostStatus& host : hosts_) host.set_up(false);
  const std::string reason = fmt::format("waits for a host: {}", why);
  auto moved = step(model::JobTrigger::kRestart, reason);
  const base::WallTime now = surroundings_.clock->wall();
  record(
      {recovery(), NewEvent{.job = id_,
                            .time = now,
                            .message = proto::stored_event(model::JobStateChanged{state_, stored_reason(reason)}, now),
                            .job_step = std::move(moved)}});
}

void RunningJob::runs_again(base::Duration taken) {
  if (owner_.on_running_again) owner_.on_running_again(taken);
}

void RunningJob::hosts_changed() {
  if (slots_) return seek_slots();
  if (job_ != nullptr && !is_over_) job_->hosts_changed();
}

base::Status RunningJob::resize(int ranks, std::vector<model::HostSpec> hosts, ResizeReason reason) {
  if (is_over_) return base::failed_precondition("it has ended");
  if (job_ == nullptr) return base::error(base::Code::kAborted, "it starts just now: try again in a moment");
  if (slots_) return resize_live(ranks, hosts, std::move(reason));
  return job_->resize(ranks, std::move(hosts), std::move(reason));
}

int RunningJob::could_grow_to(int most) const {
  if (slots_) return most_live(most);
  return job_ == nullptr || is_over_ ? placement_.size : job_->could_grow_to(most);
}

std::optional<int> RunningJob::changes_to() const {
  if (is_over_ || !stop_reason_.empty()) return 0;
  if (slots_) return slots_->held().size > slots_->size() ? std::optional(slots_->size()) : std::nullopt;
  return job_ == nullptr ? std::nullopt : job_->resizes_to();
}

std::string RunningJob::end_reason(const JobOutcome& outcome) const {
  if (final_state(outcome) == model::JobState::kKilled) return stop_reason_;
  if (outcome.exit_code == 0) return "all ranks ended with exit code 0";
  if (outcome.cause == StopCause::kTimeout) return "it ran longer than its timeout";
  if (outcome.cause == StopCause::kHung && outcome.root < 0) return "it hung";
  if (!outcome.host_failures.empty()) {
    std::vector<model::HostText> texts;
    for (const HostFailure& failure : outcome.host_failures) texts.push_back({failure.host, failure.message});
    return model::group_host_texts(texts).front();
  }
  if (!outcome.output_failure.empty()) return outcome.output_failure;
  if (outcome.root < 0) return "";
  const model::RankEnd& root = outcome.ends[static_cast<std::size_t>(outcome.root)];
  return fmt::format("rank {} on {}: {}", root.rank, root.host, model::describe(root));
}

// Appends which output is lost.
std::string RunningJob::with_lost_output(std::string reason) const {
  for (const auto& [host, bytes] : sink_->lost_bytes()) {
    if (!reason.empty()) reason += "; ";
    reason += fmt::format("{} bytes of the output of {} are lost: launcherd's disk confirmed the write and lost it",
                          bytes, host);
  }
  return reason;
}

void RunningJob::on_finished(const JobOutcome& outcome) {
  const bool is_past_deadline = outcome.cause == StopCause::kTimeout && stop_cause_ == StopCause::kTimeout;
  const model::JobState state = is_past_deadline ? model::JobState::kKilled : final_state(outcome);
  const std::string reason = is_past_deadline ? stop_reason_ : end_reason(outcome);
  end(state, with_lost_output(reason), ended_event(id_.str(), outcome));
}

void RunningJob::end(model::JobState state, const std::string& reason, const model::JobEnded& ended) {
  is_over_ = true;
  exit_code_ = ended.exit_code;
  // The state table allows only a stopping job to end as killed, so store the stop first.
  if (!model::next_state(state_, trigger_of(state))) {
    record_event(model::JobStopping{reason}, step(model::JobTrigger::kStop, reason), {});
  }
  const auto moved = step(trigger_of(state), reason);
  MUSTER_CHECK(moved.has_value());
  record(end_of_job(id_, attempt_, moved->to, moved->reason, ended, surroundings_.clock->wall()));
  owner_.on_ended();
}

}  // namespace muster::launcherd::daemon
