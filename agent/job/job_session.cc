// The whole of JobSession. The launcher's orders come in through handle(), the warden's events through on_event().
// Read prepare() and launch() first, then on_event(), then rank_is_over() and maybe_host_empty(), then leave() and
// close().

#include "agent/job/job_session.h"

#include <algorithm>
#include <csignal>
#include <utility>

#include "agent/host/host_facts.h"
#include "agent/job/agent_messages.h"
#include "agent/job/rank_containers.h"
#include "agent/job/rank_requests.h"
#include "agent/proc/session_dir.h"
#include "agent/proc/session_notes.h"
#include "base/clock.h"
#include "base/descriptor_limit.h"
#include "base/print.h"
#include "base/strings.h"
#include "model/exit_code.h"
#include "proto/convert.h"

namespace muster::agent::inline job {
namespace {

using std::chrono::milliseconds;

// How long the session offers output to the launcher after all ranks have ended. A launcher that has not taken it by
// then no longer comes for it.
constexpr std::chrono::hours kOutputPatience{24};
// A warden that was ordered to leave and is still there after this time is killed.
constexpr std::chrono::seconds kCloseBound{5};
// The sum of all time limits of an agent whose job is over. It kills and audits everything twice, and the warden
// leaves.
constexpr std::chrono::seconds kEndBound{20};
// A warden that does not run for this long while the ranks must end is killed. The launcher waits for the grace and 6
// s more (launcherd's kStopMargin). Killing what is left takes up to 3 s of these.
constexpr std::chrono::milliseconds kWardenPatience{1000};
// A normal start takes milliseconds. If a file system does not answer, the kernel waits without a limit.
constexpr std::chrono::seconds kSlowSpawn{5};
constexpr milliseconds kLeaseStep{100};  // the lease is not written more often than this

rendezvous::SessionEnded news_of(const model::RankEnd& end) {
  return {end.rank, end.status() != 0, model::describe_to_peers(end)};
}

}  // namespace

JobSession::JobSession(const SessionHost& host, Warden warden, SessionOptions options, SessionEvents events)
    : host_(host),
      warden_(std::move(warden)),
      options_(std::move(options)),
      events_(std::move(events)),
      owner_peers_(host.loop, PeerOwners::is_ours),
      owners_(host.addresses,
              [this](v1::OwnerQuestion question) {
                v1::AgentMessage message;
                *message.mutable_owner_question() = std::move(question);
                events_.send_unnumbered(std::move(message));
              }),
      stores_(host.loop, owners_.check(),
              {.on_problem = [this](const base::Status& problem) { log(problem); },
               .on_unreachable = [this](const std::string& text) { notice(text); },
               .on_starved =
                   [this] {
                     notice(
                         fmt::format("the agent has no file descriptors left (its limit is {}): new connections to "
                                     "the job's stores wait; raise the limit of open files on this host (ulimit -Hn)",
                                     base::descriptor_limit()));
                   }}),
      session_socket_(host.loop, {.on_first_hello =
                                      [this] {
                                        v1::AgentMessage message;
                                        message.mutable_follow_ends()->set_wants_silent_ranks(true);
                                        events_.send(std::move(message));
                                      },
                                  .on_problem = [this](const base::Status& problem) { log(problem); }}),
      stacks_(host.loop,
              [this](v1::StackAnswer answer) {
                v1::AgentMessage message;
                *message.mutable_stack_answer() = std::move(answer);
                events_.send(std::move(message));
              }),
      stages_(host.loop,
              [this](v1::StageAnswer answer) {
                v1::AgentMessage message;
                *message.mutable_stage_answer() = std::move(answer);
                events_.send(std::move(message));
              }),
      inputs_(host.loop,
              [this](v1::InputTaken taken) {
                v1::AgentMessage message;
                *message.mutable_input_taken() = std::move(taken);
                events_.send(std::move(message));
              }),
      mpi_ends_(host.loop, [this](int rank) { kill_rank(rank); }),
      gpus_(host.loop, host.gpus),
      pals_([this](const base::Status& problem) { notice(problem.message()); }),
      pmi_(host.loop, mpi_ends_, [this](const base::Status& problem) { notice(problem.message()); }),
      pmix_(host.loop, mpi_ends_,
            {.on_problem = [this](const std::string& text) { notice(text); },
             .pid_of =
                 [this](int rank) {
                   const auto found = rank_pids_.find(rank);
                   return found == rank_pids_.end() ? 0 : found->second;
                 },
             .on_spawn =
                 [this](v1::SpawnRequest request) {
                   v1::AgentMessage message;
                   *message.mutable_spawn_request() = std::move(request);
                   events_.send(std::move(message));
                 },
             .on_world_added =
                 [this](v1::WorldAdded added) {
                   v1::AgentMessage message;
                   *message.mutable_world_added() = std::move(added);
                   events_.send(std::move(message));
                 },
             .on_lost = [this](const std::string& why) { pmix_lost(why); }}) {
  warden_watch_ = host_.loop.on_readable(warden_.fd(), [this] { warden_readable(); });
}

JobSession::~JobSession() = default;

template <typename Task>
void JobSession::post(Task task) {
  host_.loop.post([alive = std::weak_ptr<char>(alive_), task = std::move(task)] {
    if (alive.lock()) task();
  });
}

void JobSession::contact(base::MonotonicTime when) {
  last_contact_ = when;
  if (suspended_ && options_.suspend_stops_lease) return;
  if (when - lease_renewed_ < std::min(kLeaseStep, options_.lease / 8)) return;
  lease_renewed_ = when;
  warden_.renew_lease(when + options_.lease);
}

void JobSession::check(base::MonotonicTime now) {
  check_warden(now);
  if ((suspended_ && options_.suspend_stops_lease) || lost_) return;
  if (now - last_contact_ > options_.lease) {
    launcher_lost("the launcher was not heard of for the length of the lease");
  }
}

// Continues the warden if it is stopped. If it cannot run while the ranks must end, kills it: then the agent ends the
// ranks.
void JobSession::check_warden(base::MonotonicTime now) {
  if (warden_lost_ || empty_ || on_closed_) return;
  if (warden_.keep_running() || !stopping_) {
    hangs_since_.reset();
    return;
  }
  if (!hangs_since_) hangs_since_ = now;
  if (now - *hangs_since_ < kWardenPatience) return;
  if (failure_.empty()) failure_ = "the warden, the parent of the ranks, did not run and was killed to end the ranks";
  warden_.kill_hung();
}

void JobSession::handle(const v1::LauncherMessage& message) {
  switch (message.body_case()) {
    case v1::LauncherMessage::kPrepare:
      prepare(message.prepare());
      break;
    case v1::LauncherMessage::kLaunch:
      launch(message.launch());
      break;
    case v1::LauncherMessage::kSignalRanks: {
      if (message.signal_ranks().once() && std::exchange(has_signalled_once_, true)) break;
      const base::Status sent = warden_.signal(-1, message.signal_ranks().signal());
      if (!sent.ok()) notice(sent.message());
      break;
    }
    case v1::LauncherMessage::kStopRanks:
      stop(milliseconds(message.stop_ranks().grace_ms()));
      break;
    case v1::LauncherMessage::kSuspend:
      suspend(message.suspend().on());
      break;
    case v1::LauncherMessage::kLeave:
      leave();
      break;
    case v1::LauncherMessage::kRankInput:
      inputs_.arrived(message.rank_input());
      break;
    case v1::LauncherMessage::kWindowSize:
      inputs_.resize(message.window_size());
      break;
    case v1::LauncherMessage::kOwnerAnswer:
      owners_.answered(message.owner_answer());
      break;
    case v1::LauncherMessage::kStackQuestion:
      ask_stacks(message.stack_question());
      break;
    case v1::LauncherMessage::kRanksEnded:
      ranks_ended(message.ranks_ended());
      break;
    case v1::LauncherMessage::kSilentRanks:
      session_socket_.set_silent({message.silent_ranks().ranks().begin(), message.silent_ranks().ranks().end()});
      break;
    case v1::LauncherMessage::kStageOrder:
      stages_.order(message.stage_order());
      break;
    case v1::LauncherMessage::kAddWorld:
      add_world(message.add_world());
      break;
    case v1::LauncherMessage::kKillRanks:
      for (const int rank : message.kill_ranks().ranks()) {
        if (spawned_.contains(rank) && running_.contains(rank)) kill_rank(rank);
      }
      break;
    case v1::LauncherMessage::kSpawnAnswer:
      pmix_.spawn_answered(message.spawn_answer());
      break;
    default:
      break;  // ignore messages of a newer launcher
  }
}

void JobSession::stream_is_up() {
  owners_.ask_again();
  session_socket_.set_silent({});  // the launcher sends the list anew
}

void JobSession::ask_stacks(const v1::StackQuestion& question) {
  std::map<int, pid_t> pids;
  for (const auto& [rank, pid] : rank_pids_) {
    const bool is_meant =
        question.ranks().empty() || std::ranges::find(question.ranks(), rank) != question.ranks().end();
    if (is_meant) pids.emplace(rank, pid);
  }
  stacks_.ask(question.id(), pids);
}

void JobSession::prepare(const v1::Prepare& prepare) {
  v1::AgentMessage message;
  v1::Prepared& answer = *message.mutable_prepared();
  auto route = find_route(prepare.master_address());
  if (!route.ok()) {
    answer.set_error(fmt::format("cannot reach rank 0's host at {} ({}): check the network between the hosts",
                                 prepare.master_address(), route.status().message()));
  } else {
    answer = *route;
    session_secret_ = prepare.session_secret();
    answer.set_session_secret(session_secret_);
    base::Status prepared = stores_.open(prepare, answer);
    if (prepared.ok()) prepared = prepare_master_port(prepare, answer);
    if (prepared.ok()) prepared = prepare_more_ports(prepare, answer);
    prepare_owner_port(prepare, answer);
    if (!prepared.ok()) answer.set_error(prepared.message());
  }
  events_.send(std::move(message));
}

base::Status JobSession::prepare_master_port(const v1::Prepare& prepare, v1::Prepared& answer) {
  if (!prepare.hold_master_port() || prepare.serve_torch()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(held_port_, hold_port());
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(held_port_.get()));
  answer.set_master_port(port);
  return base::ok_status();
}

base::Status JobSession::prepare_more_ports(const v1::Prepare& prepare, v1::Prepared& answer) {
  for (int i = 0; i < prepare.hold_ports(); ++i) {
    MUSTER_ASSIGN_OR_RETURN(base::UniqueFd held, hold_port());
    MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(held.get()));
    answer.add_held_ports(port);
    more_held_ports_.push_back(std::move(held));
  }
  return base::ok_status();
}

// If the port cannot be opened, only the launcher can answer questions about peers on other hosts. A job of one host
// has no such peers.
void JobSession::prepare_owner_port(const v1::Prepare& prepare, v1::Prepared& answer) {
  const auto master = base::IpAddress::parse(prepare.master_address());
  if (session_secret_.empty() || !master.ok() || master->is_loopback()) return;
  const auto port = owner_peers_.open(session_secret_);
  if (!port.ok()) return log(port.status());
  answer.set_owner_port(*port);
}

// Prints for the launcher's --verbose: the line travels over stderr and the bootstrap channel.
void JobSession::log(const base::Status& problem) {
  if (host_.verbose) base::print_remark("muster-agent: {}\n", problem.message());
}

base::Status JobSession::make_sender() {
  MUSTER_ASSIGN_OR_RETURN(OutputSenderConfig config, options_.output());
  config.only_if_any = options_.tells_no_output;
  config.outlives_launcher = options_.outlives_launcher;
  config.spool_bytes = options_.spool_bytes;
  config.spool_directory = warden_.session_dir();
  OutputSenderEvents events;
  events.on_stderr_tail = [this](int rank, std::string tail) {
    post([this, rank, tail = std::move(tail)] { got_stderr_tail(rank, tail); });
  };
  events.on_any = [this](bool was_any) { post([this, was_any] { got_output_end(was_any); }); };
  MUSTER_ASSIGN_OR_RETURN(sender_, OutputSender::start(std::move(config), std::move(events)));
  return base::ok_status();
}

// An older launcher sends no secret. Its ranks then have no session, which most programs do not need.
void JobSession::open_session_socket(const v1::Launch& launch) {
  if (session_secret_.empty() || stores_.keys() == nullptr) return;
  std::vector<int> ranks;
  for (const v1::LaunchRank& rank : launch.ranks()) ranks.push_back(rank.rank());
  const base::Status opened = session_socket_.open(warden_.session_dir(), session_secret_, ranks, *stores_.keys());
  if (!opened.ok()) {
    notice(
        fmt::format("programs that use libmuster will not find each other: {}: MUSTER_TMPDIR can name another "
                    "directory",
                    opened.message()));
  }
}

void JobSession::ranks_ended(const v1::RanksEnded& news) {
  for (const v1::EndedRank& ended : news.ranks()) {
    session_socket_.rank_ended({ended.rank(), ended.failed(), ended.cause()});
  }
}

// Names of the variables by which ranks find this host's stores and servers.
std::vector<std::string> JobSession::names_of_stores() const {
  std::vector<std::string> names = pmi_variable_names();
  for (std::string& name : pals_variable_names()) names.push_back(std::move(name));
  for (const auto& [name, value] : stores_.variables()) names.push_back(name);
  names.insert(names.end(), pmix_.variable_names().begin(), pmix_.variable_names().end());
  return names;
}

void JobSession::launch(const v1::Launch& launch) {
  if (std::exchange(launched_, true)) return;
  wants_error_files_ = launch.wants_error_files();
  base::Status made = make_sender();
  owner_peers_.set_peers(launch);
  owners_.ask_others(owner_peers_);
  if (made.ok()) made = stores_.serve_ranks(launch);
  if (made.ok()) open_session_socket(launch);
  // Insert all ranks before the first one starts. Otherwise a rank that fails at once would look like the last one.
  for (const v1::LaunchRank& rank : launch.ranks()) running_.insert(rank.rank());
  std::vector<SpawnRequest> requests = rank_requests(launch, host_.login_environment, stores_.variables());
  gpus_.launch(requests);
  pmi_.open(launch, stores_.keys());
  if (!pmi_.world_name().empty()) {
    const base::Status noted = write_note(warden_.session_dir(), kWorldNote, pmi_.world_name() + "\n");
    if (!noted.ok()) notice(noted.message());
  }
  for (int i = 0; i < launch.ranks_size(); ++i) pmi_.plan(launch.ranks(i), requests[static_cast<std::size_t>(i)]);
  pals_.open(launch, warden_.session_dir(), session_secret_);
  for (SpawnRequest& request : requests) pals_.plan(request);
  pmix_.open(launch, stores_.keys(), warden_.session_dir(), host_.verbose);
  for (SpawnRequest& request : requests) pmix_.plan(request);
  spawn_ranks(launch, std::move(requests), made);
}

// If no rank runs here any longer, the job is over. Then the new ranks are refused.
void JobSession::add_world(const v1::AddWorld& world) {
  if (!launched_ || running_.empty() || stopping_ || warden_lost_ || sender_ == nullptr) {
    v1::AgentMessage message;
    message.mutable_world_added()->set_first(world.first());
    message.mutable_world_added()->set_error("the job's ranks here have ended");
    message.mutable_world_added()->set_starts_no_rank(true);
    return events_.send(std::move(message));
  }
  const v1::Launch& launch = world.launch();
  for (const v1::LaunchRank& rank : launch.ranks()) {
    running_.insert(rank.rank());
    spawned_.insert(rank.rank());
  }
  pmix_.add_world(world);
  std::vector<SpawnRequest> requests = rank_requests(launch, host_.login_environment, {});
  for (SpawnRequest& request : requests) pmix_.plan(request);
  spawn_ranks(launch, std::move(requests), base::ok_status());
}

void JobSession::spawn_ranks(const v1::Launch& launch, std::vector<SpawnRequest> requests,
                             const base::Status& made_by) {
  base::Status made = made_by;
  const base::Status contained = put_in_containers(launch, names_of_stores(), requests);
  if (made.ok()) made = contained;
  for (const SpawnRequest& request : requests) {
    spawns_due_[request.rank] = fmt::format("'{}' in {}", request.argv.empty() ? "" : request.argv.front(),
                                            request.workdir.empty() ? "/" : request.workdir);
  }
  watch_spawns();
  for (int i = 0; i < launch.ranks_size(); ++i) {
    SpawnRequest& request = requests[static_cast<std::size_t>(i)];
    inputs_.plan(launch.ranks(i), request);
    const base::Status spawned = made.ok() ? warden_.spawn(request) : made;
    if (!spawned.ok()) {
      RankStartFailed failed;
      failed.rank = request.rank;
      failed.message = spawned.message();
      if (!contained.ok()) failed.exit_code = model::kNotFound;
      on_event(failed);
    }
  }
}

// For a rank that called MPI_Abort and still runs.
void JobSession::kill_rank(int rank) {
  const base::Status killed = warden_.signal(rank, SIGKILL);
  if (!killed.ok()) notice(killed.message());
}

// The ends that this stop causes are not failures of ranks. The reported failure is this host's.
void JobSession::pmix_lost(const std::string& why) {
  failure_ = why;
  stop(milliseconds(0));
}

void JobSession::stop(milliseconds grace) {
  const bool is_again = std::exchange(stopping_, true);
  mpi_ends_.stopping();
  // A second stop without grace, or one when no rank is left, gives up the wait for GPUs. A first one may be meant
  // only for ranks that get no grace.
  if (grace == milliseconds(0) && (is_again || running_.empty())) give_up_gpus();
  if (empty_ || is_over_) return;
  if (!launched_) return;
  if (suspended_) suspend(false);
  const base::Status stopped = warden_.stop(grace);
  if (!stopped.ok()) notice(stopped.message());
}

void JobSession::suspend(bool on) {
  suspended_ = on;
  if (on && options_.suspend_stops_lease) {
    warden_.suspend_lease();
  } else {
    lease_renewed_ = {};
    contact(base::monotonic_now());
  }
  const base::Status paused = warden_.pause(on);
  if (!paused.ok()) notice(paused.message());
  v1::AgentMessage message;
  message.mutable_suspended()->set_on(on);
  events_.send(std::move(message));
}

void JobSession::leave() {
  warden_.end_agent_by(base::monotonic_now() + kEndBound);
  if (launched_ && !is_over_) {
    launcher_lost("the launcher left");
    return;
  }
  done();
}

void JobSession::done() {
  if (!std::exchange(is_done_, true)) events_.on_done();
}

void JobSession::launcher_lost(const std::string& why) {
  if (std::exchange(lost_, true)) return;
  warden_.end_agent_by(base::monotonic_now() + kEndBound);
  if (!launched_ || is_over_) {
    done();
    return;
  }
  give_up_gpus();
  // A launcher that comes back must not take these ends for a success or for a failure of the ranks.
  if (failure_.empty() && !running_.empty()) failure_ = why + "; the ranks were ended";
  // stderr may be a closed channel by now. SIGPIPE is ignored, and the line is for a log that may still listen.
  base::print_remark("muster-agent: {}: ending the ranks\n", why);
  stop(milliseconds(0));
}

std::vector<pid_t> JobSession::own_children() const {
  std::vector<pid_t> pids{warden_.pid()};
  if (stacks_.pid() != 0) pids.push_back(stacks_.pid());
  if (pmix_.helper() != 0) pids.push_back(pmix_.helper());
  for (const auto& [rank, pid] : rank_pids_) pids.push_back(pid);
  return pids;
}

void JobSession::close(std::function<void()> done) {
  on_closed_ = std::move(done);
  sender_.reset();
  if (warden_lost_) {
    post([this] { watch_close(); });
    return;
  }
  warden_.begin_close();
  close_deadline_ = host_.loop.after(kCloseBound, [this] { watch_close(); });
}

// Called when the warden has ended, or when its time to leave is over.
void JobSession::watch_close() {
  if (!on_closed_) return;
  warden_watch_.cancel();
  close_deadline_.cancel();
  const base::Status closed = warden_.close();
  if (!closed.ok()) notice(closed.message());
  std::exchange(on_closed_, nullptr)();
}

base::Status JobSession::close_blocking() {
  sender_.reset();
  warden_watch_.cancel();
  return warden_.close();  // for a lost warden, too: the agent must then remove its session directory
}

void JobSession::warden_readable() {
  auto events = warden_.read_events();
  if (!events.ok()) {
    if (!on_closed_) return warden_gone();
    // Post it. watch_close() destroys the watch that calls this function.
    warden_watch_.cancel();
    post([this] { watch_close(); });
    return;
  }
  for (WardenEvent& event : *events) {
    std::visit([this](auto& what) { on_event(what); }, event);
  }
}

void JobSession::warden_gone() {
  warden_watch_.cancel();
  warden_lost_ = true;
  if (empty_) return;  // the warden had finished its work
  if (failure_.empty()) failure_ = "the warden, the parent of the ranks, was killed; the ranks were ended";
  std::vector<pid_t> spared = events_.others();
  if (stacks_.pid() != 0) spared.push_back(stacks_.pid());
  if (pmix_.helper() != 0) spared.push_back(pmix_.helper());
  for (const pid_t helper : host_.gpu_helpers()) spared.push_back(helper);
  Warden::Aftermath aftermath = warden_.clean_up_without_warden(spared);
  for (RankExited& exited : aftermath.ranks) on_event(exited);
  for (const int rank : std::set<int>(running_)) {
    RankStartFailed failed;
    failed.rank = rank;
    failed.message = "it was lost with the warden, which was killed";
    on_event(failed);
  }
  on_event(aftermath.empty);
}

void JobSession::on_event(RankStarted& started) {
  rank_pids_[started.rank] = started.pid;
  gpus_.started(started, warden_.containment().pidns);
  with_output_.insert(started.rank);
  sender_->add_rank(
      started.rank, std::move(started.stdout_fd), std::move(started.stderr_fd),
      inputs_.has_terminal(started.rank) ? OutputSender::StreamKind::kTerminal : OutputSender::StreamKind::kLines);
  inputs_.started(started);
  pmi_.started(started);
  events_.send(message_of(started));
  spawn_was_tried(started.rank);
}

// The warden starts ranks one after the other. It sleeps in the kernel while a file system does not answer.
void JobSession::watch_spawns() {
  spawn_watch_ = host_.loop.after(kSlowSpawn, [this] { spawns_are_slow(); });
}

void JobSession::spawns_are_slow() {
  if (spawns_due_.empty()) return;
  const auto& [rank, what] = *spawns_due_.begin();
  notice(fmt::format("rank {} has not started for {} s ({}): does the file system of its program and folder answer?",
                     rank, kSlowSpawn.count(), base::printable(what)));
}

void JobSession::spawn_was_tried(int rank) {
  spawns_due_.erase(rank);
  spawn_watch_.cancel();
  if (!spawns_due_.empty()) return watch_spawns();
  v1::AgentMessage message;
  message.mutable_launched();
  events_.send(std::move(message));
}

void JobSession::on_event(RankStartFailed& failed) {
  const v1::AgentMessage message = message_of(failed, base::monotonic_now());
  if (!spawned_.contains(failed.rank)) {
    session_socket_.rank_ended(news_of(proto::rank_end_of(message.rank_start_failed())));
  }
  events_.send(message);
  spawn_was_tried(failed.rank);
  rank_is_over(failed.rank);
}

void JobSession::on_event(RankExited& exited) {
  pmix_.catch_up();
  v1::AgentMessage message = message_of(exited);
  pmi_.ended(exited.rank);
  mpi_ends_.judge(*message.mutable_rank_exited());
  if (!spawned_.contains(exited.rank)) {
    session_socket_.rank_ended(news_of(proto::rank_end_of(message.rank_exited())));
  }
  const TorchError error = torch_errors_.ended(warden_.session_dir(), message.rank_exited());
  if (!error.line.empty()) notice(error.line);
  if (wants_error_files_ && !error.content.empty()) events_.send(error_file_message(exited.rank, error.content));
  events_.send(message);
  if (exited.oom_suspected) {
    notice(
        fmt::format("rank {} was ended by a SIGKILL that Muster has not sent. The kernel has killed processes of this "
                    "machine for want of memory meanwhile, perhaps this one: look at its log (dmesg)",
                    exited.rank));
  }
  if (with_output_.contains(exited.rank)) {
    tails_due_.insert(exited.rank);
    sender_->rank_exited(exited.rank);
  }
  rank_is_over(exited.rank);
}

void JobSession::rank_is_over(int rank) {
  running_.erase(rank);
  inputs_.over(rank);
  const auto pid = rank_pids_.find(rank);
  gpus_.ended(rank, pid == rank_pids_.end() ? 0 : pid->second);
  rank_pids_.erase(rank);
  if (!running_.empty()) return;
  if (sender_ != nullptr) {
    // Nothing here waits for the result. The launcher's output hub reports to the launcher when everything has
    // arrived.
    sender_->finish(base::monotonic_now() + kOutputPatience, [](const base::Status&) {});
  }
  if (stopping_ || warden_lost_) return;
  const base::Status finished = warden_.finish();
  if (!finished.ok()) notice(finished.message());
}

void JobSession::on_event(JobEmpty& empty) {
  if (empty.oom_others > 0) {
    notice(
        fmt::format("the kernel has killed {} processes for want of memory that were no ranks: children of ranks, or "
                    "others under the same limit",
                    empty.oom_others));
  }
  empty_ = host_empty_of(empty, failure_);
  await_gpus(empty.killed);
  maybe_host_empty();
}

// Do not wait for GPUs if the launcher is lost, because nothing would use them.
void JobSession::await_gpus(const std::vector<Leftover>& leftovers) {
  if (awaits_no_gpus_ || lost_ || is_over_) return;
  gpus_.await(leftovers, [this](const std::vector<std::string>& sentences) {
    for (const std::string& sentence : sentences) notice(sentence);
    end_gpu_wait();
  });
}

// May be called before the wait has begun.
void JobSession::give_up_gpus() {
  awaits_no_gpus_ = true;
  if (gpus_.is_waiting()) end_gpu_wait();
}

// Post it. The caller may be gpus_ itself.
void JobSession::end_gpu_wait() {
  post([this] {
    gpus_.give_up();
    maybe_host_empty();
  });
}

void JobSession::on_event(LeaseExpired&) {
  launcher_lost("the warden found the lease expired");
}

void JobSession::got_stderr_tail(int rank, const std::string& text) {
  // If the launcher learns from HostEmpty that there was no output, do not send empty tails.
  if (!text.empty() || !options_.tells_no_output) events_.send(stderr_tail_message(rank, text));
  pmix_.explain(rank, text);
  tails_due_.erase(rank);
  maybe_host_empty();
}

void JobSession::got_output_end(bool was_any) {
  was_any_output_ = was_any;
  maybe_host_empty();
}

void JobSession::maybe_host_empty() {
  if (!empty_ || !tails_due_.empty() || gpus_.is_waiting() || is_over_) return;
  // Without a sender no rank has run, so there is no output to wait for.
  if (options_.tells_no_output && sender_ != nullptr && !was_any_output_) return;
  is_over_ = true;
  held_port_.reset();
  if (options_.tells_no_output) empty_->set_no_output(!was_any_output_.value_or(false));
  v1::AgentMessage message;
  *message.mutable_host_empty() = *empty_;
  events_.send(std::move(message));
  if (lost_) done();
}

void JobSession::notice(const std::string& text) {
  events_.send(notice_message(text));
}

}  // namespace muster::agent::job
