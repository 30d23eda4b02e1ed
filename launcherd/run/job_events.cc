// The part of JobRunner's core that processes the messages of agents while the job runs, and watches whether they
// answer.
// Read it in this order: agent_said, said, then a function for each message; tick and check_liveness last.
#include <algorithm>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "launcherd/run/job_core.h"
#include "proto/convert.h"

namespace muster::launcherd::inline run {
namespace {

std::int64_t to_ns(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

std::string describe_leftover(const std::string& host, const v1::Leftover& leftover) {
  return fmt::format("{}: pid {} ({}): {}", host, leftover.pid(), base::printable(leftover.command()),
                     base::printable(leftover.reason()));
}

constexpr std::size_t kMaxStrayLines = 20;
constexpr std::size_t kLongestTail = std::size_t{256} << 10;  // bytes of a rank's stderr
// pings that may still be answered: those of four seconds at kPingPeriod
constexpr std::size_t kMostPings = 8;
constexpr std::int64_t kLastAgentTime = std::int64_t{1} << 61;  // ns since its boot: 73 years, and sums do not overflow

// Returns the rank that the message reports on. nullopt if it reports on none.
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
    default:
      return std::nullopt;
  }
}

bool is_time(std::int64_t agent_ns) {
  return agent_ns >= 0 && agent_ns < kLastAgentTime;
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
  JobHost& host = host_at(agent);
  host.has_stream = is_there;
  if (!is_there) return;
  host.last_heard = clock_.now();
  end_news_.stream_began(agent);
}

void JobRunner::Core::agent_said(int agent, const v1::AgentMessage& message) {
  if (is_finished()) return;
  JobHost& host = host_at(agent);
  host.last_heard = clock_.now();
  if (host.suspect) {
    set_suspect(host, false);
    observer_->on_warning(fmt::format("{} answers again", host.name));
  }
  if (host.phase == HostPhase::kLost || host.phase == HostPhase::kSweeping || host.phase == HostPhase::kFailed) return;
  said(host, message);
}

// Returns whether the host may send this message. A host may report only on ranks that it was sent.
bool JobRunner::Core::may_report(JobHost& host, const v1::AgentMessage& message) {
  const auto rank = reported_rank(message);
  const auto has = [&](const JobHost& other) { return std::ranges::find(other.ranks, *rank) != other.ranks.end(); };
  if (!rank || has(host)) return true;
  // An earlier launcherd may have sent it the ranks of another entry of the same host, which has not come back.
  if (options_.resumes && std::ranges::none_of(hosts_, has)) return true;
  if (!std::exchange(host.has_misreported, true)) {
    observer_->on_warning(
        fmt::format("{}: its agent reports on rank {}, which does not run there: ignored", host.name, *rank));
  }
  return false;
}

void JobRunner::Core::said(JobHost& host, const v1::AgentMessage& message) {
  if (!may_report(host, message)) return;
  switch (message.body_case()) {
    case v1::AgentMessage::kPong:
      pong(host, message.pong());
      break;
    case v1::AgentMessage::kPrepared:
      if (message.prepared().error().empty()) {
        observer_->on_event(model::HostUp{host.name, host.agent_link, base::printable(host.facts.hello.containment())});
      }
      prepared(host, message.prepared());
      break;
    case v1::AgentMessage::kLaunched:
      host.launched = true;
      if (first_not_launched_ < hosts_.size() && have_all(first_not_launched_, [](const JobHost& other) {
            return other.launched || other.phase == HostPhase::kUnused;
          })) {
        proceed(RunEvent::kRanksTried);
      }
      break;
    case v1::AgentMessage::kRankStarted:
      ++host.started;
      watch_launch();
      if (feed_ != nullptr) feed_->started(message.rank_started().rank());
      observer_->on_event(
          model::RankUp{message.rank_started().rank(), static_cast<long>(message.rank_started().pid())});
      observer_->on_note(
          fmt::format("rank {} on {}: pid {}", message.rank_started().rank(), host.name, message.rank_started().pid()));
      spawned_started(message.rank_started().rank());
      break;
    case v1::AgentMessage::kRankStartFailed:
      rank_start_failed(host, message.rank_start_failed());
      break;
    case v1::AgentMessage::kRankExited:
      rank_exited(host, message.rank_exited());
      break;
    case v1::AgentMessage::kRankStderrTail:
      stderr_tails_[message.rank_stderr_tail().rank()] = message.rank_stderr_tail().text().substr(0, kLongestTail);
      break;
    case v1::AgentMessage::kRankErrorFile:
      observer_->on_error_file(message.rank_error_file().rank(), message.rank_error_file().content());
      break;
    case v1::AgentMessage::kNotice:
      observer_->on_warning(fmt::format("{}: {}", host.name, base::printable(message.notice().text())));
      break;
    case v1::AgentMessage::kFollowEnds:
      end_news_.follow(host.agent, host.ranks, ends_.ends(), message.follow_ends().wants_silent_ranks());
      break;
    case v1::AgentMessage::kHostEmpty:
      host_empty(host, message.host_empty());
      break;
    case v1::AgentMessage::kSuspended:
      host.suspends_due = std::max(0, host.suspends_due - 1);
      if (suspend_done_ && std::ranges::none_of(hosts_, [&](const JobHost& other) {
            return other.has_stream && other.phase == HostPhase::kLaunched && other.suspends_due > 0;
          })) {
        timers_.cancel(JobTimer::kSuspend);
        std::exchange(suspend_done_, nullptr)();
      }
      break;
    case v1::AgentMessage::kInputTaken:
      if (feed_ != nullptr) {
        feed_->taken(message.input_taken().rank(), message.input_taken().bytes(), message.input_taken().closed());
      }
      break;
    case v1::AgentMessage::kOwnerQuestion:
      owner_questions_.ask(host.agent, message.owner_question(), owners_of(message.owner_question().peer()));
      break;
    case v1::AgentMessage::kOwnerAnswer:
      owner_questions_.answered(host.agent, message.owner_answer());
      break;
    case v1::AgentMessage::kStageAnswer:
      if (staging_ != nullptr) staging_->answered(host.agent, message.stage_answer());
      break;
    case v1::AgentMessage::kStackAnswer:
      stack_questions_.answered(host.agent, message.stack_answer());
      break;
    case v1::AgentMessage::kSpawnRequest:
      spawn_requested(host, message.spawn_request());
      break;
    case v1::AgentMessage::kWorldAdded:
      world_added(host, message.world_added());
      break;
    default:
      break;  // unknown body of a newer agent, or no body
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

base::Status JobRunner::Core::stacks(const std::vector<int>& ranks, StackQuestions::OnProcess on_process,
                                     base::Loop::Task done) {
  for (const int rank : ranks) {
    if (rank >= 0 && rank < next_number_) continue;
    return base::error(base::Code::kInvalidArgument, "there is no rank {}: the job has ranks 0 to {}", rank,
                       next_number_ - 1);
  }
  std::vector<StackQuestions::Asked> asked;
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
    return base::error(
        base::Code::kFailedPrecondition, "{}",
        ranks.empty() ? "no rank runs at the moment: it is starting or ending" : "none of these ranks runs");
  stack_questions_.ask(asked, std::move(on_process), std::move(done));
  return base::ok_status();
}

// Returns the agents of all hosts with this address. Private networks may use one address on several hosts.
std::vector<int> JobRunner::Core::owners_of(const std::string& address) const {
  std::vector<int> agents;
  for (const JobHost& host : hosts_) {
    // Includes agents whose ranks have ended: rank 0's agent holds the job's store for the other ranks.
    const bool is_up = host.phase == HostPhase::kPrepared || host.phase == HostPhase::kLaunched ||
                       ((host.phase == HostPhase::kDraining || host.phase == HostPhase::kEmpty) && host.has_stream);
    if (is_up && has_address(host.facts.hello, address)) agents.push_back(host.agent);
  }
  return agents;
}

void JobRunner::Core::pong(JobHost& host, const v1::Pong& pong) {
  if (!is_time(pong.agent_ns()) || std::ranges::find(host.pings, pong.launcher_ns()) == host.pings.end()) return;
  const std::int64_t now_ns = to_ns(clock_.now());
  const base::Duration round_trip = std::chrono::nanoseconds(now_ns - pong.launcher_ns());
  if (round_trip > host.best_round_trip) return;
  host.best_round_trip = round_trip;
  // Assume that the agent read its clock in the middle of the fastest round trip so far.
  host.clock_offset_ns = pong.agent_ns() - (pong.launcher_ns() + now_ns) / 2;
  if (host.was_told) maybe_prepare();
}

base::MonotonicTime JobRunner::Core::corrected(const JobHost& host, std::int64_t agent_ns) const {
  // The rank ended before the first round trip, or the value is no valid time.
  if (host.best_round_trip == base::Duration::max() || !is_time(agent_ns)) return clock_.now();
  return base::MonotonicTime(
      std::chrono::duration_cast<base::Duration>(std::chrono::nanoseconds(agent_ns - host.clock_offset_ns)));
}

void JobRunner::Core::rank_exited(JobHost& host, const v1::RankExited& exited) {
  model::RankEnd end = proto::rank_end_of(exited);
  end.host = host.name;
  end.at = corrected(host, exited.agent_ns());
  end.at_is_known = host.best_round_trip != base::Duration::max();
  add_end(std::move(end));
}

void JobRunner::Core::rank_start_failed(JobHost& host, const v1::RankStartFailed& failed) {
  model::RankEnd end = proto::rank_end_of(failed);
  end.host = host.name;
  end.at = corrected(host, failed.agent_ns());
  end.at_is_known = host.best_round_trip != base::Duration::max();
  add_end(std::move(end));
}

void JobRunner::Core::add_end(model::RankEnd end) {
  if (end.rank < 0 || end.rank >= next_number_ || keep_spawned_end(end)) return;
  if (!ends_.has_ended(end.rank)) {
    observer_->on_event(end);
    tell_peers(end);
  }
  if (feed_ != nullptr) feed_->rank_over(end.rank);
  const bool must_stop = ends_.add(end, clock_.now());
  watch_services(end);
  if (ends_.decision_time() && !root_told_ && !timers_.is_armed(JobTimer::kRootCause)) {
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
  timers_.start(JobTimer::kServices, kServiceTime, [this] {
    begin_stop(StopCause::kPolicy, job_.kill_grace, "all ranks have ended that it was there for");
  });
}

// Reports the end to peers, together with the other ends of this turn of the loop. If the end causes a stop,
// send_stop() reports it first.
void JobRunner::Core::tell_peers(const model::RankEnd& end) {
  if (end.rank < placement_.size && end_news_.add(end)) flush_peers();
}

void JobRunner::Core::flush_peers() {
  timers_.start(JobTimer::kPeers, base::Duration::zero(), [this] { end_news_.flush(); });
}

void JobRunner::Core::set_suspect(JobHost& host, bool is_suspect) {
  host.suspect = is_suspect;
  observer_->on_event(model::HostSuspect{host.name, is_suspect});
  std::set<int> silent;
  for (const JobHost& other : hosts_) {
    if (other.suspect && other.phase == HostPhase::kLaunched) silent.insert(other.ranks.begin(), other.ranks.end());
  }
  end_news_.set_silent(std::move(silent));
  flush_peers();
}

void JobRunner::Core::maybe_name_root_cause() {
  if (root_told_ || is_finished()) return;
  const auto root = ends_.root();
  if (!root) return;
  root_told_ = true;
  observer_->on_root_cause(*root);
}

void JobRunner::Core::add_stray_line(std::string line) {
  if (stray_lines_.size() < kMaxStrayLines) stray_lines_.push_back(std::move(line));
}

void JobRunner::Core::host_empty(JobHost& host, const v1::HostEmpty& empty) {
  host.phase.apply(HostEvent::kRanksGone);
  if (host.output_complete) host.phase.apply(HostEvent::kOutputComplete);
  end_news_.unfollow(host.agent);
  host_left_worlds(host);
  if (empty.no_output()) host.phase.apply(HostEvent::kOutputComplete);
  strays_killed_ += empty.killed_size();
  for (const v1::Leftover& leftover : empty.killed()) {
    add_stray_line(describe_leftover(host.name, leftover));
  }
  for (const v1::Leftover& leftover : empty.stuck()) {
    unclean_.push_back({host.name, "cannot be killed: " + describe_leftover(host.name, leftover)});
  }
  if (!empty.failure().empty()) {
    host_failures_.push_back({host.name, fmt::format("{}: {}", host.name, base::printable(empty.failure()))});
    // Its ranks appear as stopped. A policy stop that saw them end first did not know of this failure.
    if (cause_ == StopCause::kPolicy && !ends_.root()) cause_ = StopCause::kHostFailed;
    begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host failed");
  }
  maybe_finish();
}

// Handles lost output: no process of the job is left on the host, and no more output comes from it.
void JobRunner::Core::output_lost(JobHost& host, const std::string& why) {
  stack_questions_.lost(host.agent);
  host_failures_.push_back({host.name, why});
  agents_->drop(host.agent);
  if (cause_ == StopCause::kPolicy && !ends_.root()) cause_ = StopCause::kHostFailed;
  begin_stop(StopCause::kHostFailed, job_.kill_grace, "a host was lost");
  maybe_finish();
}

void JobRunner::Core::tick() {
  const base::MonotonicTime now = clock_.now();
  if (now - last_tick_ > 2 * kPingPeriod + kSuspectAfter) {
    // This process itself was stopped (Ctrl-Z, a debugger, a paused machine). Agents were not silent in that time, so
    // do not count it. Silence from before the stall still counts.
    const base::Duration stalled = now - last_tick_ - kPingPeriod;
    for (JobHost& host : hosts_) {
      if (host.last_heard < now) host.last_heard = std::min(now, host.last_heard + stalled);
    }
    runs_since_ = now;
  }
  last_tick_ = now;
  ping_turns_.next(hosts_.size());
  for (JobHost& host : hosts_) {
    if (host.has_stream && ping_turns_.is_due(static_cast<std::size_t>(host.agent))) send_ping(host);
  }
  check_liveness(now);
}

void JobRunner::Core::send_ping(JobHost& host) {
  v1::LauncherMessage message;
  const std::int64_t now_ns = to_ns(clock_.now());
  host.pings.push_back(now_ns);
  if (host.pings.size() > kMostPings) host.pings.pop_front();
  message.mutable_ping()->set_launcher_ns(now_ns);
  agents_->send_unnumbered(host.agent, std::move(message));
}

void JobRunner::Core::check_liveness(base::MonotonicTime now) {
  if (suspended_) return;
  const base::Duration suspect_after = kSuspectAfter + kPingPeriod * ping_turns_.count();
  for (JobHost& host : hosts_) {
    if (!is_watched(host.phase)) continue;
    const base::Duration silent = now - host.last_heard;
    if (silent > job_.lease) {
      handle(
          host, HostEvent::kLeaseOver,
          fmt::format("{}: not heard of for {} s (its lease); {}: check the host and its network", host.name,
                      std::chrono::duration_cast<std::chrono::seconds>(job_.lease).count(),
                      host.phase == HostPhase::kDraining ? "its ranks have ended, but not all that they wrote has come"
                                                         : "its agent has ended its ranks by itself if it still runs"));
      return;  // the job may have ended; the next tick continues
    }
    look_at(host, now);
    // After a stall, first read its queued messages, and let the agent reconnect.
    if (std::min(silent, now - runs_since_) > suspect_after && !host.suspect) {
      set_suspect(host, true);
      observer_->on_warning(fmt::format("{} does not answer; waiting up to {} s for it", host.name,
                                        std::chrono::duration_cast<std::chrono::seconds>(job_.lease).count()));
    }
  }
}

// Probes a silent host over the bootstrap. If its agent and warden are stopped, nothing else would continue them. The
// probe also ends what dead agents have left.
void JobRunner::Core::look_at(JobHost& host, base::MonotonicTime now) {
  const auto patience = is_ending(phase_) ? kLookAtStopped : kLookAtSilent;
  const base::Duration after = std::min<base::Duration>(job_.lease / 2, patience);
  const base::Duration silent = std::min(now - host.last_heard, now - runs_since_);
  if (job_.lease < kShortestLookedAt || host.is_looked_at || host.phase != HostPhase::kLaunched) return;
  if (silent < after || now - host.looked_at < after) return;
  host.is_looked_at = true;
  host.looked_at = now;
  agents_->sweep(host.agent, [this, agent = host.agent](const base::Result<CommandResult>& result) {
    if (!is_finished()) looked(host_at(agent), result);
  });
}

void JobRunner::Core::looked(JobHost& host, const base::Result<CommandResult>& result) {
  host.is_looked_at = false;
  if (!result.ok() || host.phase != HostPhase::kLaunched) return;
  for (const std::string_view line : base::split(base::trim(result->errors), '\n')) {
    if (line.empty()) continue;
    const std::string said = fmt::format("{}: {}", host.name, base::printable(line));
    if (line.find("was stopped") != std::string_view::npos) {
      observer_->on_warning(said);
    } else {
      observer_->on_note(said);
    }
  }
}

}  // namespace muster::launcherd::run
