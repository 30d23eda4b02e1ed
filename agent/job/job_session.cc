// The whole of JobSession. Orders of the launcher, events of the warden and ends of waits become session events. For
// each of them the table of session_phase.h gives the action. Read on() and carry_out() first, then handle(), then the
// actions.

#include "agent/job/job_session.h"

#include <algorithm>
#include <map>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "agent/job/agent_lease.h"
#include "agent/job/agent_messages.h"
#include "agent/job/rank_status.h"
#include "agent/job/staged_environment.h"
#include "base/clock.h"
#include "base/print.h"

namespace muster::agent::inline job {
namespace {

using std::chrono::milliseconds;

}  // namespace

JobSession::JobSession(const SessionHost& host, Warden warden, SessionOptions options, SessionEvents events)
    : host_(host),
      options_(std::move(options)),
      groups_(host.loop, std::exchange(events.send, {})),
      events_(grouped(std::move(events))),
      lease_(options_.lease, options_.suspend_stops_lease),
      stores_(
          host.loop, host.addresses,
          {.ask_launcher =
               [this](v1::OwnerQuestion question) {
                 events_.send_unnumbered(message_with(&v1::AgentMessage::mutable_owner_question, std::move(question)));
               },
           .on_problem = [this](const base::Status& problem) { log(problem); },
           .on_notice = [this](const std::string& text) { notice(text); },
           .live = {.on_check_in = [this](int local_rank) { ranks_.checked_in(local_rank); },
                    .on_first_put = [this](int rank) { ranks_.put_first(rank); }},
           .on_first_collective = [this](int generation) { ranks_.first_collective(generation); }}),
      stacks_(host.loop,
              [this](v1::StackAnswer answer) {
                if ((answer.id() & RankWatchdog::kStackBit) != 0) return ranks_.watchdog().stack_arrived(answer);
                events_.send(message_with(&v1::AgentMessage::mutable_stack_answer, std::move(answer)));
              }),
      stages_(host.loop,
              [this](v1::StageAnswer answer) {
                events_.send(message_with(&v1::AgentMessage::mutable_stage_answer, std::move(answer)));
              }),
      output_(host.loop, {.on_tail =
                              [this](int rank, const std::string& tail) {
                                // Do not send empty tails if HostEmpty reports whether there was output.
                                if (!tail.empty() || !options_.reports_no_output) {
                                  events_.send(stderr_tail_message(rank, tail));
                                }
                                ranks_.servers().stderr_arrived(rank, tail);
                              },
                          .on_change = [this] { check_end(); }}),
      warden_(host.loop, std::move(warden),
              {.on_event = [this](WardenEvent& event) { std::visit([this](auto& what) { on_event(what); }, event); },
               .on_end = [this] { on(SessionEvent::kWardenEnded); },
               .on_close_due = [this] { on(SessionEvent::kCloseDue); }}),
      ranks_(host, *warden_, stores_, output_,
             {.send = events_.send,
              .send_unnumbered = events_.send_unnumbered,
              .on_notice = [this](const std::string& text) { notice(text); },
              .on_problem = [this](const base::Status& problem) { log(problem); },
              .on_all_over =
                  [this] {
                    evidence_.end("all ranks of this host have ended");
                    on(SessionEvent::kLastRankOver);
                  },
              // Record a failure of this host, because this stop ends ranks that have not failed by themselves.
              .on_lost =
                  [this](const std::string& why) {
                    failure_ = why;
                    on(SessionEvent::kStop);
                  },
              .read_stacks = [this](std::uint64_t id,
                                    const auto& pids) { stacks_.ask(id, pids, true, stack_options()); }}),
      evidence_(host.loop,
                {.pids = [this] { return ranks_.pids(); },
                 .last_outputs = [this](auto done) { output_.last_outputs(std::move(done)); },
                 .awaited = [this](int rank) { return ranks_.awaited(rank); },
                 .collective = [this](int rank) { return collective_place_of(session_dir(), rank); },
                 .store_wait = [this](const auto& ends, auto done) { stores_.ask_store_wait(ends, std::move(done)); },
                 .watch_missing = [this](auto on_missing) { stores_.watch_missing(std::move(on_missing)); },
                 .session_dir = [this] { return session_dir(); }},
                [this](v1::EvidenceAnswer answer) {
                  events_.send(message_with(&v1::AgentMessage::mutable_evidence_answer, std::move(answer)));
                }),
      end_(host.loop, ranks_.gpus(), output_,
           {.on_notice = [this](const std::string& text) { notice(text); }, .on_change = [this] { check_end(); }}) {}

JobSession::~JobSession() = default;

SessionEvents JobSession::grouped(SessionEvents events) {
  events.send = [this](v1::AgentMessage message) { groups_.send(std::move(message)); };
  return events;
}

bool JobSession::on(SessionEvent event, const Cause& cause) {
  const auto step = next_step(phase_, event);
  if (!step) return false;
  phase_ = step->to;
  carry_out(step->action, cause);
  return true;
}

void JobSession::carry_out(SessionAction action, const Cause& cause) {
  switch (action) {
    case SessionAction::kStartRanks:
      return ranks_.launch(*cause.launch, start_output());
    case SessionAction::kAddRanks:
      return ranks_.add_world(*cause.world);
    case SessionAction::kFinish:
      return notice_if_bad(warden_->finish());
    case SessionAction::kStopAll:
    case SessionAction::kStopRanks:
    case SessionAction::kEndGpuWait:
      ranks_.servers().stopping();
      ranks_.commands().stopping();
      if (action != SessionAction::kStopRanks && cause.grace == milliseconds(0)) end_.give_up_gpus();
      if (action != SessionAction::kEndGpuWait) stop_ranks(cause.grace);
      return;
    case SessionAction::kAbandonRanks:
      return abandon_ranks(cause.why);
    case SessionAction::kReplaceWarden:
      return replace_warden();
    case SessionAction::kCollect:
      end_.job_is_empty(host_empty_of(*cause.empty, failure_), cause.empty->killed);
      return check_end();
    case SessionAction::kReport:
      return report_empty();
    case SessionAction::kReportAndLeave:
      report_empty();
      return events_.on_done();
    case SessionAction::kLeave:
      return events_.on_done();
    case SessionAction::kDismissWarden:
      return warden_.dismiss();
    case SessionAction::kRemove:
      // Post the task, because the caller may be a watch or a timer that remove() destroys.
      return host_.loop.post(gate_.wrap([this] { remove(); }));
  }
}

void JobSession::contact(base::MonotonicTime when) {
  if (const auto until = lease_.renew(when)) warden_->renew_lease(*until);
}

void JobSession::check(base::MonotonicTime now) {
  if (needs_warden(phase_) && warden_.check(now, must_end_ranks(phase_)) && failure_.empty()) {
    failure_ = "the warden, the parent of the ranks, did not run and was killed to end the ranks";
  }
  if (has_lease(phase_) && lease_.is_over(now)) {
    launcher_lost("the launcher has sent nothing for the length of the lease");
  }
}

void JobSession::handle(const v1::LauncherMessage& message) {
  switch (message.body_case()) {
    case v1::LauncherMessage::kPrepare:
      return events_.send(message_with(&v1::AgentMessage::mutable_prepared, stores_.prepare(message.prepare())));
    case v1::LauncherMessage::kLaunch:
      on(SessionEvent::kLaunch, {.launch = &message.launch()});
      return;
    case v1::LauncherMessage::kAddWorld:
      if (!on(SessionEvent::kAddWorld, {.world = &message.add_world()})) refuse(message.add_world());
      return;
    case v1::LauncherMessage::kStopRanks:
      on(SessionEvent::kStop, {.grace = milliseconds(message.stop_ranks().grace_ms())});
      return;
    case v1::LauncherMessage::kLeave:
      return launcher_lost("the launcher left");
    case v1::LauncherMessage::kSuspend:
      return suspend(message.suspend().on());
    case v1::LauncherMessage::kSignalRanks:
      return ranks_.signal_all(message.signal_ranks());
    case v1::LauncherMessage::kKillRanks:
      return ranks_.kill_spawned(message.kill_ranks());
    case v1::LauncherMessage::kPrepareGeneration:
      return events_.send(message_with(&v1::AgentMessage::mutable_generation_prepared,
                                       stores_.prepare_generation(message.prepare_generation())));
    case v1::LauncherMessage::kBeginGeneration:
      return ranks_.begin_generation(message.begin_generation());
    case v1::LauncherMessage::kEndRanks:
      return ranks_.end_some(message.end_ranks());
    case v1::LauncherMessage::kStoreLost:
      if (stores_.live() != nullptr) stores_.live()->lose_store();
      return;
    case v1::LauncherMessage::kNotifyWorker:
      return ranks_.notify(message.notify_worker());
    case v1::LauncherMessage::kGenerationOver:
      if (stores_.live() != nullptr) stores_.live()->set_over(message.generation_over());
      return;
    case v1::LauncherMessage::kSpawnAnswer:
      return ranks_.servers().spawn_answered(message.spawn_answer());
    case v1::LauncherMessage::kRankInput:
      return ranks_.inputs().arrived(message.rank_input());
    case v1::LauncherMessage::kWindowSize:
      return ranks_.inputs().resize(message.window_size());
    case v1::LauncherMessage::kExecOrder:
      // The warden cannot start a process in a frozen cgroup.
      if (lease_.is_suspended()) return ranks_.commands().refuse(message.exec_order().id(), "the job is suspended");
      return ranks_.commands().order(message.exec_order());
    case v1::LauncherMessage::kExecInput:
      return ranks_.commands().input(message.exec_input());
    case v1::LauncherMessage::kExecControl:
      return ranks_.commands().control(message.exec_control());
    case v1::LauncherMessage::kRanksEnded:
      return ranks_.servers().ranks_ended(message.ranks_ended());
    case v1::LauncherMessage::kSilentRanks:
      return ranks_.servers().set_silent(
          {message.silent_ranks().ranks().begin(), message.silent_ranks().ranks().end()});
    case v1::LauncherMessage::kOwnerAnswer:
      return stores_.owner_answered(message.owner_answer());
    case v1::LauncherMessage::kStackQuestion:
      return ask_stacks(message.stack_question());
    case v1::LauncherMessage::kEvidenceQuestion:
      return evidence_.ask(message.evidence_question());
    case v1::LauncherMessage::kStageOrder:
      return stages_.order(message.stage_order(), environments_folder(session_dir()));
    default:
      return;  // ignore messages of a newer launcher
  }
}

// Call this if the phase does not allow new ranks: either no rank runs here, or the ranks must end.
void JobSession::refuse(const v1::AddWorld& world) const {
  v1::WorldAdded refusal;
  refusal.set_first(world.first());
  refusal.set_error("the job's ranks here have ended");
  refusal.set_starts_no_rank(true);
  events_.send(message_with(&v1::AgentMessage::mutable_world_added, std::move(refusal)));
}

void JobSession::stream_is_up() {
  stores_.ask_again();
  ranks_.servers().set_silent({});  // the launcher sends the list of silent ranks again
  ranks_.commands().stream_is_up();
}

void JobSession::ask_stacks(const v1::StackQuestion& question) {
  std::map<int, pid_t> pids;
  for (const auto& [rank, pid] : ranks_.pids()) {
    const bool is_meant =
        question.ranks().empty() || std::ranges::find(question.ranks(), rank) != question.ranks().end();
    if (is_meant) pids.emplace(rank, pid);
  }
  stacks_.ask(question.id() & ~RankWatchdog::kStackBit, pids, question.native(), stack_options());
}

std::vector<std::string> JobSession::stack_options() const {
  return {"--session=" + session_dir()};
}

// Prints a line for the launcher's --verbose. It travels over stderr and the bootstrap channel.
void JobSession::log(const base::Status& problem) const {
  if (host_.verbose) base::print_remark("muster-agent: {}\n", problem.message());
}

void JobSession::notice(const std::string& text) const {
  events_.send(notice_message(text));
}

void JobSession::notice_if_bad(const base::Status& status) const {
  if (!status.ok()) notice(status.message());
}

base::Status JobSession::start_output() {
  MUSTER_ASSIGN_OR_RETURN(OutputSenderConfig config, options_.output());
  config.only_if_any = options_.reports_no_output;
  config.outlives_launcher = options_.outlives_launcher;
  config.spool_bytes = options_.spool_bytes;
  config.spool_directory = warden_->session_dir();
  return output_.start(std::move(config));
}

void JobSession::stop_ranks(milliseconds grace) {
  if (lease_.is_suspended()) suspend(false);
  notice_if_bad(warden_->stop(grace));
}

void JobSession::suspend(bool is_on) {
  if (const auto until = lease_.suspend(is_on, base::monotonic_now())) {
    warden_->renew_lease(*until);
  } else {
    warden_->suspend_lease();
  }
  notice_if_bad(warden_->pause(is_on));
  v1::AgentMessage message;
  message.mutable_suspended()->set_on(is_on);
  events_.send(std::move(message));
}

void JobSession::launcher_lost(const std::string& why) {
  must_end_ = true;
  warden_->end_agent_by(base::monotonic_now() + kEndBound);
  on(SessionEvent::kLauncherGone, {.why = why});
}

void JobSession::abandon_ranks(const std::string& why) {
  end_.give_up_gpus();
  // Set failure_. Otherwise a launcher that comes back would count the ends of the ranks as success, or as failures
  // of the ranks themselves.
  if (failure_.empty() && !ranks_.are_all_over()) failure_ = why + "; the ranks were ended";
  // stderr may be closed by now, but print anyway: the agent ignores SIGPIPE, and stderr may lead to a log.
  base::print_remark("muster-agent: {}: ending the ranks\n", why);
  on(SessionEvent::kStop);
}

std::vector<pid_t> JobSession::helpers() const {
  std::vector<pid_t> pids;
  if (stacks_.pid() != 0) pids.push_back(stacks_.pid());
  if (evidence_.pid() != 0) pids.push_back(evidence_.pid());
  if (ranks_.servers().helper() != 0) pids.push_back(ranks_.servers().helper());
  return pids;
}

std::vector<pid_t> JobSession::own_children() const {
  std::vector<pid_t> pids = helpers();
  pids.push_back(warden_->pid());
  for (const auto& [rank, pid] : ranks_.pids()) pids.push_back(pid);
  return pids;
}

void JobSession::replace_warden() {
  if (failure_.empty()) failure_ = "the warden, the parent of the ranks, was killed; the ranks were ended";
  std::vector<pid_t> spared = events_.others();
  for (const pid_t helper : helpers()) spared.push_back(helper);
  for (const pid_t helper : host_.gpu_helpers()) spared.push_back(helper);
  Warden::Aftermath aftermath = warden_->clean_up_without_warden(spared);
  for (RankExited& exited : aftermath.ranks) on_event(exited);
  ranks_.lose_all();
  on_event(aftermath.empty);
}

void JobSession::on_event(JobEmpty& empty) {
  if (empty.oom_others > 0) {
    notice(fmt::format(
        "the kernel killed {} processes because memory ran out. They were no ranks, but children of ranks or "
        "others under the same memory limit",
        empty.oom_others));
  }
  on(SessionEvent::kJobEmpty, {.empty = &empty});
}

void JobSession::on_event(LeaseExpired&) {
  launcher_lost("the warden reports that the lease has expired");
}

void JobSession::check_end() {
  if (end_.has_all()) on(SessionEvent::kAllArrived);
}

void JobSession::report_empty() {
  stores_.release_master_port();
  v1::HostEmpty message = end_.message();
  if (options_.reports_no_output) message.set_no_output(!output_.had_any());
  events_.send(message_with(&v1::AgentMessage::mutable_host_empty, std::move(message)));
}

void JobSession::close(std::function<void()> done) {
  on_closed_ = std::move(done);
  evidence_.end("the job has ended on this host");
  output_.stop();
  on(SessionEvent::kClose);
}

void JobSession::remove() {
  notice_if_bad(warden_.close());
  std::exchange(on_closed_, nullptr)();
}

base::Status JobSession::close_blocking() {
  output_.stop();
  return warden_.close();
}

}  // namespace muster::agent::job
