// The part of JobRunner's core that processes the messages of agents while the job runs.
// Read it in this order: agent_message, process, then a function for each message.
#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "base/strings.h"
#include "launcherd/run/job_core.h"
#include "proto/convert.h"
#include "proto/muster/v1/launcher.pb.h"

namespace muster::launcherd::inline run {
namespace {

std::string describe_leftover(const std::string& host, const v1::Leftover& leftover) {
  return fmt::format("{}: pid {} ({}): {}", host, leftover.pid(), base::printable(leftover.command()),
                     base::printable(leftover.reason()));
}

// How long ends without a failure and silent hosts wait for others, in a job with many hosts: 1 ms for each 50 hosts.
constexpr std::size_t kHostsOfAPause = 50;
constexpr std::chrono::milliseconds kPeerPauseOfHost{1};
constexpr std::chrono::milliseconds kLongestPeerPause{200};
constexpr int kMostArrivals = 512;  // of one rank in one message
constexpr std::size_t kMaxStrayLines = 20;
constexpr std::size_t kLongestTail = std::size_t{256} << 10;  // bytes of a rank's stderr

// Returns the rank that the message is about. nullopt if the message is about no rank.
std::optional<int> reported_rank(const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kRankStarted:
      return message.rank_started().rank();
    case v1::AgentMessage::kRankStartFailed:
      return message.rank_start_failed().rank();
    case v1::AgentMessage::kRankExited:
      return message.rank_exited().rank();
    case v1::AgentMessage::kRankStderrTail:
      return message.rank_stderr_tail().rank();
    case v1::AgentMessage::kRankErrorFile:
      return message.rank_error_file().rank();
    case v1::AgentMessage::kInputTaken:
      return message.input_taken().rank();
    case v1::AgentMessage::kSpawnRequest:
      return message.spawn_request().rank();
    case v1::AgentMessage::kCheckIn:
      return message.check_in().number();
    case v1::AgentMessage::kFirstPut:
      return message.first_put().number();
    case v1::AgentMessage::kRankWorld:
      return message.rank_world().rank();
    case v1::AgentMessage::kWorkerNotified:
      return message.worker_notified().number();
    default:
      return std::nullopt;
  }
}

template <typename Group>
bool has_pid_of_each(const Group& group) {
  const bool has_inside = group.pids_inside().empty() || group.pids_inside_size() == group.ranks_size();
  return group.pids_size() == group.ranks_size() && has_inside;
}

}  // namespace

void JobRunner::Core::note(const std::string& line) {
  observer_->on_note(line);
}

void JobRunner::Core::warn(const std::string& line) {
  observer_->on_warning(line);
}

void JobRunner::Core::agent_stream(int agent, bool is_there) {
  if (is_finished()) return;
  JobHost& host = hosts_.at(agent);
  host.has_stream = is_there;
  if (!is_there) return;
  liveness_.connected(host);
  peer_failures_.stream_began(agent);
}

void JobRunner::Core::agent_message(int agent, const v1::AgentMessage& message) {
  if (is_finished()) return;
  JobHost& host = hosts_.at(agent);
  liveness_.heard(host);
  if (host.phase == HostPhase::kLost || host.phase == HostPhase::kSweeping || host.phase == HostPhase::kFailed) return;
  process(host, message);
}

// Returns whether the host may send this message.
bool JobRunner::Core::may_report(JobHost& host, const v1::AgentMessage& message) {
  const auto rank = reported_rank(message);
  return !rank || may_report_on(host, *rank);
}

// A host may report only on ranks that it was sent.
bool JobRunner::Core::may_report_on(JobHost& host, int rank) {
  const auto has = [rank](const JobHost& other) { return std::ranges::find(other.ranks, rank) != other.ranks.end(); };
  if (has(host)) return true;
  // An earlier launcherd may have sent this host the ranks of another entry for the same host. If that entry has not
  // come back, no entry has these ranks.
  if (options_.resumes && std::ranges::none_of(hosts_, has)) return true;
  if (!std::exchange(host.has_misreported, true)) {
    observer_->on_warning(
        fmt::format("{}: its agent reports on rank {}, which does not run there: ignored", host.name, rank));
  }
  return false;
}

void JobRunner::Core::process(JobHost& host, const v1::AgentMessage& message) {
  if (!may_report(host, message)) return;
  switch (message.body_case()) {
    case v1::AgentMessage::kPong:
      if (liveness_.pong(host, message.pong()) && host.has_launched) maybe_prepare();
      break;
    case v1::AgentMessage::kPrepared:
      if (message.prepared().error().empty() && !host.joins) {
        observer_->on_event(model::HostUp{host.name, host.agent_link, base::printable(host.facts.hello.containment())});
      }
      prepared(host, message.prepared());
      break;
    case v1::AgentMessage::kLaunched:
      if (hosts_.note_tried(host)) proceed(RunEvent::kRanksTried);
      break;
    case v1::AgentMessage::kNotice:
      host_warnings_.add(host.name, fmt::format("{}: {}", host.name, base::printable(message.notice().text())));
      break;
    case v1::AgentMessage::kFollowEnds:
      update_silent_peers();
      peer_failures_.follow(host.agent, shown_ranks(host), ends_.ends(), message.follow_ends().wants_silent_ranks());
      break;
    case v1::AgentMessage::kProgress:
      observer_->on_progress_file();
      break;
    case v1::AgentMessage::kFirstCollective:
      first_collective(message.first_collective().generation());
      break;
    case v1::AgentMessage::kArrivalTimes:
      arrival_times(host, message.arrival_times());
      break;
    case v1::AgentMessage::kHostLoad:
      observer_->on_host_load(host.name, message.host_load());
      break;
    case v1::AgentMessage::kRankWorld:
      rank_world(message.rank_world());
      break;
    case v1::AgentMessage::kHostEmpty:
      host_empty(host, message.host_empty());
      break;
    case v1::AgentMessage::kSuspended:
      suspension_.answered(host);
      break;
    case v1::AgentMessage::kOwnerQuestion:
      peer_queries_.ask(host.agent, message.owner_question(), hosts_.owners_of(message.owner_question().peer()));
      break;
    case v1::AgentMessage::kOwnerAnswer:
      peer_queries_.answered(host.agent, message.owner_answer());
      break;
    case v1::AgentMessage::kStageAnswer:
      if (const auto joining = live_stagings_.find(host.agent); joining != live_stagings_.end()) {
        joining->second->answered(host.agent, message.stage_answer());
      } else if (staging_ != nullptr) {
        staging_->answered(host.agent, message.stage_answer());
      }
      break;
    case v1::AgentMessage::kStackAnswer:
      stack_requests_.answered(host.agent, message.stack_answer());
      break;
    case v1::AgentMessage::kEvidenceAnswer:
      evidence_requests_.answered(host.agent, message.evidence_answer());
      break;
    case v1::AgentMessage::kSpawnRequest:
      spawn_requested(host, message.spawn_request());
      break;
    case v1::AgentMessage::kWorldAdded:
      if (live_ == nullptr) {
        worlds_.added(host, message.world_added());
      } else if (message.world_added().starts_no_rank()) {
        live_->refused(host.agent, message.world_added().first());
      }
      break;
    case v1::AgentMessage::kCheckIn:
      if (live_ != nullptr) live_->checked_in(message.check_in().number());
      break;
    case v1::AgentMessage::kFirstPut:
      if (live_ != nullptr) live_->put_first(message.first_put().number());
      break;
    case v1::AgentMessage::kGenerationPrepared:
      if (live_ != nullptr) live_->prepared(host.agent, message.generation_prepared());
      break;
    case v1::AgentMessage::kWorkerNotified:
      if (live_ != nullptr) live_->notified(message.worker_notified());
      break;
    case v1::AgentMessage::kExecStarted:
    case v1::AgentMessage::kExecOutput:
    case v1::AgentMessage::kExecInputTaken:
    case v1::AgentMessage::kExecEnded:
      process_exec_message(host.agent, message);
      break;
    default:
      process_rank_message(host, message);
      break;
  }
}

void JobRunner::Core::rank_started(JobHost& host, const v1::RankStarted& started) {
  ++host.started;
  if (feed_ != nullptr) feed_->started(started.rank());
  const auto pid = static_cast<long>(started.pid());
  if (live_ != nullptr && !live_->members().has_joined(started.rank())) {
    live_pids_[started.rank()] = pid;  // its rank begins with the generation
  } else {
    observer_->on_event(model::RankUp{started.rank(), pid});
  }
  observer_->on_note(fmt::format("rank {} on {}: pid {}", started.rank(), host.name, pid));
  worlds_.started(started.rank());
}

void JobRunner::Core::warn_of_bad_group(JobHost& host) {
  if (std::exchange(host.has_misreported, true)) return;
  observer_->on_warning(fmt::format("{}: its agent reports on ranks without their pids: ignored", host.name));
}

// Processes the message as one RankStarted for each rank.
void JobRunner::Core::ranks_started(JobHost& host, const v1::RanksStarted& group) {
  if (!has_pid_of_each(group)) return warn_of_bad_group(host);
  watch_launch();
  v1::RankStarted started;
  for (int i = 0; i < group.ranks_size(); ++i) {
    if (!may_report_on(host, group.ranks(i))) continue;
    started.set_rank(group.ranks(i));
    started.set_pid(group.pids(i));
    rank_started(host, started);
  }
}

// Processes the message as one RankExited for each rank.
void JobRunner::Core::ranks_exited(JobHost& host, const v1::RanksExited& group) {
  if (!has_pid_of_each(group)) return warn_of_bad_group(host);
  v1::RankExited exited;
  for (int i = 0; i < group.ranks_size() && !is_finished(); ++i) {
    if (!may_report_on(host, group.ranks(i))) continue;
    exited.set_rank(group.ranks(i));
    exited.set_pid(group.pids(i));
    exited.set_pid_inside(group.pids_inside().empty() ? group.pids(i) : group.pids_inside(i));
    rank_ended(host, proto::rank_end_of(exited), group.agent_ns());
  }
}

// Processes a message about ranks. Ignores unknown bodies of a newer agent.
void JobRunner::Core::process_rank_message(JobHost& host, const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kRankStarted:
      watch_launch();
      rank_started(host, message.rank_started());
      break;
    case v1::AgentMessage::kRanksStarted:
      ranks_started(host, message.ranks_started());
      break;
    case v1::AgentMessage::kRanksExited:
      ranks_exited(host, message.ranks_exited());
      break;
    case v1::AgentMessage::kRankStartFailed:
      rank_ended(host, proto::rank_end_of(message.rank_start_failed()), message.rank_start_failed().agent_ns());
      break;
    case v1::AgentMessage::kRankExited:
      rank_ended(host, proto::rank_end_of(message.rank_exited()), message.rank_exited().agent_ns());
      break;
    case v1::AgentMessage::kRankStderrTail:
      stderr_tails_[shown_rank(message.rank_stderr_tail().rank())] =
          message.rank_stderr_tail().text().substr(0, kLongestTail);
      break;
    case v1::AgentMessage::kRankErrorFile:
      observer_->on_error_file(shown_rank(message.rank_error_file().rank()), message.rank_error_file().content());
      break;
    case v1::AgentMessage::kInputTaken:
      if (feed_ != nullptr) {
        feed_->taken(message.input_taken().rank(), message.input_taken().bytes(), message.input_taken().closed());
      }
      break;
    default:
      break;
  }
}

// Processes a message about a command that runs beside a rank.
void JobRunner::Core::process_exec_message(int agent, const v1::AgentMessage& message) {
  switch (message.body_case()) {
    case v1::AgentMessage::kExecStarted:
      return exec_calls_.started(agent, message.exec_started());
    case v1::AgentMessage::kExecOutput:
      return exec_calls_.output(agent, message.exec_output());
    case v1::AgentMessage::kExecInputTaken:
      return exec_calls_.input_taken(agent, message.exec_input_taken());
    default:
      return exec_calls_.ended(agent, message.exec_ended());
  }
}

// Sends one message to each agent that has some of these ranks.
void JobRunner::Core::send_input(const std::vector<int>& ranks, std::string_view bytes, bool ends) {
  for (const JobHost& host : hosts_) {
    if (host.phase != HostPhase::kLaunched) continue;
    v1::LauncherMessage message;
    v1::RankInput& input = *message.mutable_rank_input();
    for (const int rank : host.ranks) {
      if (std::ranges::binary_search(ranks, rank)) input.add_ranks(rank);
    }
    if (input.ranks().empty()) continue;
    input.set_data(std::string(bytes));
    input.set_eof(ends);
    agents_->send(host.agent, std::move(message));
  }
}

void JobRunner::Core::resize_terminal(int rows, int columns) {
  window_.set_rows(rows);
  window_.set_columns(columns);
  send_window();
}

// Sends the window size to the agent of rank 0, the only rank with a terminal.
void JobRunner::Core::send_window() {
  if (!job_.input.pty) return;
  for (const JobHost& host : hosts_) {
    if (host.placed != 0 || host.phase != HostPhase::kLaunched) continue;
    v1::LauncherMessage message;
    *message.mutable_window_size() = window_;
    agents_->send(host.agent, std::move(message));
  }
}

base::Status JobRunner::Core::stacks(const StackQuery& query, StackRequests::OnProcess on_process,
                                     base::Loop::Task done) {
  std::vector<int> ranks = query.ranks;
  if (live_ != nullptr) {
    for (int& rank : ranks) rank = live_->members().number_of(rank);
  }
  const int count = live_ == nullptr ? worlds_.next_number() : live_->members().next_number();
  const int last = live_ == nullptr ? count - 1 : placement_.size - 1;
  for (const int rank : ranks) {
    if (rank >= 0 && rank < count) continue;
    return base::invalid_argument("unknown rank {}: the job has ranks 0 to {}", rank, last);
  }
  std::vector<StackRequests::Target> asked;
  for (const JobHost& host : hosts_) {
    if (is_finished() || host.phase != HostPhase::kLaunched) continue;
    std::vector<int> there;
    for (const int rank : host.ranks) {
      const bool is_meant = ranks.empty() || std::ranges::find(ranks, rank) != ranks.end();
      if (is_meant && may_run(rank)) there.push_back(rank);
    }
    if (!there.empty()) asked.push_back({.agent = host.agent, .host = host.name, .ranks = std::move(there)});
  }
  if (asked.empty())
    return base::failed_precondition(
        "{}", ranks.empty() ? "no rank runs at the moment: it is starting or ending" : "none of these ranks runs");
  const auto by_rank = [this, on_process = std::move(on_process)](v1::ProcessStack process) {
    if (live_ != nullptr) process.set_rank(shown_rank(process.rank()));
    on_process(std::move(process));
  };
  stack_requests_.ask(asked, query.is_native, by_rank, std::move(done));
  return base::ok_status();
}

base::Result<ExecControls> JobRunner::Core::exec(const v1::ExecRequest& first, ExecCaller caller) {
  MUSTER_ASSIGN_OR_RETURN(const int rank, rank_of_request(first, placement_.size));
  const int number = live_ == nullptr ? rank : live_->members().number_of(rank);
  for (const JobHost& host : hosts_) {
    const bool has_rank = std::ranges::find(host.ranks, number) != host.ranks.end();
    if (is_finished() || host.phase != HostPhase::kLaunched || !has_rank || !may_run(number)) continue;
    return exec_calls_.begin({.agent = host.agent, .host = host.name, .number = number, .rank = rank}, first,
                             std::move(caller));
  }
  if (ends_.has_ended(rank)) return base::failed_precondition("rank {} has ended: no command can run beside it", rank);
  return base::failed_precondition("rank {} does not run at the moment: it is starting or ending", rank);
}

// Reports of hosts whose clock is not known yet cannot be compared.
void JobRunner::Core::arrival_times(const JobHost& host, const v1::ArrivalTimes& times) {
  const auto has_news = [](const v1::RankArrivals& arrivals) { return arrivals.operations_size() > 0; };
  if (std::ranges::any_of(times.ranks(), has_news)) hang_watch_.progressed();
  std::uint64_t steps = 0;
  for (const v1::RankArrivals& arrivals : times.ranks()) steps += steps_.add(arrivals);
  if (steps > 0) observer_->on_steps(steps);
  if (!liveness_.knows_clock(host)) return;
  if (!lateness_.has_begun()) lateness_.begin(hosts_by_rank());
  const std::vector<int> ranks = shown_ranks(host);
  bool has_changed = false;
  for (const v1::RankArrivals& arrivals : times.ranks()) {
    const bool is_sound = arrivals.operations_size() == arrivals.agent_ns_size();
    if (!is_sound || std::ranges::find(ranks, arrivals.rank()) == ranks.end()) continue;
    for (int i = 0; i < std::min(arrivals.operations_size(), kMostArrivals); ++i) {
      const auto at = liveness_.corrected(host, arrivals.agent_ns(i)).time_since_epoch();
      has_changed |= lateness_.add({.rank = arrivals.rank(),
                                    .world = arrivals.world(),
                                    .is_beat = arrivals.beats_only(),
                                    .number = arrivals.operations(i),
                                    .ns = std::chrono::duration_cast<std::chrono::nanoseconds>(at).count(),
                                    .uncertainty_ns = liveness_.uncertainty(host).count()});
    }
  }
  if (has_changed) observer_->on_late(lateness_.latest());
}

std::vector<std::string> JobRunner::Core::hosts_by_rank() const {
  std::vector<std::string> hosts(static_cast<std::size_t>(placement_.size));
  for (const model::PlacedHost& placed : placement_.hosts) {
    for (const model::PlacedRank& rank : placed.ranks) hosts[static_cast<std::size_t>(rank.rank)] = placed.host.name;
  }
  return hosts;
}

// Ranks of one role may form a world of their own.
void JobRunner::Core::rank_world(const v1::RankWorld& world) {
  if (!placement_.roles.empty()) return;
  if (const auto wrong = world_audit_.add(shown_rank(world.rank()), world)) observer_->on_event(*wrong);
}

void JobRunner::Core::rank_ended(const JobHost& host, model::RankEnd end, std::int64_t agent_ns) {
  end.host = host.name;
  end.at = liveness_.corrected(host, agent_ns);
  end.at_is_known = liveness_.knows_clock(host);
  live_ != nullptr ? add_live_end(std::move(end)) : add_end(std::move(end));
}

void JobRunner::Core::add_end(model::RankEnd end) {
  if (end.rank < 0 || end.rank >= worlds_.next_number() || worlds_.keep_end(end)) return;
  if (!ends_.has_ended(end.rank)) {
    observer_->on_event(end);
    report_to_peers(end);
  }
  if (feed_ != nullptr) feed_->rank_over(end.rank);
  exec_calls_.rank_over(end.rank, model::describe(end));
  const bool must_stop = ends_.add(end, clock_.now());
  watch_services(end);
  if (ends_.decision_time() && !root_reported_ && !timers_.is_armed(JobTimer::kRootCause)) {
    timers_.start(JobTimer::kRootCause, *ends_.decision_time() - clock_.now(), [this] { maybe_name_root_cause(); });
  }
  if (ends_.all_ended()) {
    timers_.cancel(JobTimer::kRun);  // --timeout limits only the ranks
    maybe_name_root_cause();
  }
  if (must_stop) begin_stop(StopCause::kPolicy, job_.kill_grace, "a rank ended");
}

// If only services are left, gives them kServiceTime to end by themselves, then stops them.
void JobRunner::Core::watch_services(const model::RankEnd& end) {
  if (ends_.is_late(end.rank) && end.failed() && end.kind != model::EndKind::kStopped) {
    observer_->on_warning(fmt::format("{} rank {} on {} ended with {} when all others had ended well",
                                      placement_.role(end.rank), end.rank, end.host, model::describe(end)));
  }
  if (!ends_.only_services_run() || timers_.is_armed(JobTimer::kServices)) return;
  timers_.start(JobTimer::kServices, kServiceTime,
                [this] { begin_stop(StopCause::kPolicy, job_.kill_grace, "only services are left"); });
}

// Reports the end to peers, together with the other ends of this turn of the loop. If the end causes a stop,
// send_stop() reports it first.
// When all ranks of a large job end well or are stopped, their hosts end with them and need no reports. So such an end
// waits a little. Otherwise the launcher would report each end to each host.
void JobRunner::Core::report_to_peers(const model::RankEnd& end) {
  if (end.rank >= placement_.size || !peer_failures_.add(end)) return;
  const bool is_urgent = end.failed() && end.kind != model::EndKind::kStopped;
  flush_peers(is_urgent ? base::Duration::zero() : peer_pause());
}

base::Duration JobRunner::Core::peer_pause() const {
  return std::min(kLongestPeerPause, kPeerPauseOfHost * static_cast<int>(hosts_.size() / kHostsOfAPause));
}

void JobRunner::Core::flush_peers(base::Duration pause) {
  if (timers_.is_armed(JobTimer::kPeers) && pause > base::Duration::zero()) return;
  timers_.start(JobTimer::kPeers, pause, [this] {
    timers_.cancel(JobTimer::kPeers);
    if (peer_failures_.has_followers()) update_silent_peers();
    peer_failures_.flush();
  });
}

void JobRunner::Core::suspected(const JobHost& host, bool is_suspect) {
  observer_->on_event(model::HostSuspect{host.name, is_suspect});
  are_suspects_new_ = true;
  if (peer_failures_.has_followers()) flush_peers(peer_pause());
}

// All hosts of a large job may become silent one by one, so the set of silent ranks is made only when it is needed.
void JobRunner::Core::update_silent_peers() {
  if (!std::exchange(are_suspects_new_, false)) return;
  std::set<int> silent;
  for (const int number : liveness_.silent_ranks()) silent.insert(shown_rank(number));
  silent.erase(-1);  // not in the present generation
  peer_failures_.set_silent(std::move(silent));
}

void JobRunner::Core::maybe_name_root_cause() {
  if (root_reported_ || is_finished()) return;
  const auto root = ends_.root();
  if (!root) return;
  root_reported_ = true;
  observer_->on_root_cause(*root);
}

void JobRunner::Core::add_stray_line(std::string line) {
  if (stray_lines_.size() < kMaxStrayLines) stray_lines_.push_back(std::move(line));
}

void JobRunner::Core::host_empty(JobHost& host, const v1::HostEmpty& empty) {
  host.phase.apply(HostEvent::kRanksGone);
  if (host.output_complete) host.phase.apply(HostEvent::kOutputComplete);
  peer_failures_.unfollow(host.agent);
  worlds_.host_left(host);
  if (empty.no_output()) host.phase.apply(HostEvent::kOutputComplete);
  strays_killed_ += empty.killed_size();
  for (const v1::Leftover& leftover : empty.killed()) {
    add_stray_line(describe_leftover(host.name, leftover));
  }
  for (const v1::Leftover& leftover : empty.stuck()) {
    unclean_.push_back({.host = host.name,
                        .message = "cannot be killed: " + describe_leftover(host.name, leftover),
                        .keeps_processes = true});
  }
  if (!empty.failure().empty() && goes_on_live()) {
    live_host_lost(host, fmt::format("{}: {}", host.name, base::printable(empty.failure())));
  } else if (!empty.failure().empty()) {
    host_failures_.push_back({host.name, fmt::format("{}: {}", host.name, base::printable(empty.failure()))});
    // Name the host as the cause. The host's ranks only report that they were stopped. These ends may have begun a stop
    // before the host's failure was known.
    stop_.blame_host(ends_.root().has_value());
    begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host failed");
  }
  maybe_finish();
}

// Handles lost output: no process of the job is left on the host, and no more output comes from it.
void JobRunner::Core::output_lost(JobHost& host, const std::string& why) {
  stack_requests_.lost(host.agent);
  exec_calls_.lost(host.agent);
  agents_->drop(host.agent);
  if (goes_on_live()) {
    observer_->on_warning(why);
    return maybe_finish();
  }
  host_failures_.push_back({host.name, why});
  stop_.blame_host(ends_.root().has_value());
  begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host was lost");
  maybe_finish();
}

Liveness::Events JobRunner::Core::liveness_events() {
  return {.send = [this](int agent, v1::LauncherMessage ping) { agents_->send_unnumbered(agent, std::move(ping)); },
          .probe =
              [this](int agent, std::function<void(const base::Result<CommandResult>&)> done) {
                agents_->sweep(agent, [this, done = std::move(done)](const base::Result<CommandResult>& result) {
                  if (!is_finished()) done(result);
                });
              },
          .suspect = [this](const JobHost& host, bool is_suspect) { suspected(host, is_suspect); },
          .lease_over = [this](JobHost& host, const std::string& why) { handle(host, HostEvent::kLeaseOver, why); },
          .warn = [this](const JobHost& host, const std::string& line) { host_warnings_.add(host.name, line); },
          .note = [this](const std::string& line) { observer_->on_note(line); }};
}

}  // namespace muster::launcherd::run
