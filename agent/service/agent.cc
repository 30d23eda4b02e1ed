#include "agent/service/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <set>
#include <utility>

#include "agent/io/output_sender.h"
#include "agent/launch/limits.h"
#include "agent/service/control_client.h"
#include "agent/service/host_facts.h"
#include "agent/service/job_stores.h"
#include "agent/service/peer_owners.h"
#include "agent/service/rank_inputs.h"
#include "agent/service/stack_reader.h"
#include "base/loop.h"
#include "base/print.h"
#include "base/tls.h"
#include "model/rank_env.h"
#include "proto/channel_mux.h"
#include "proto/convert.h"
#include "proto/peer_names.h"

namespace muster::agent {
namespace {

constexpr std::chrono::milliseconds kLeaseCheck{250};
// Output that the launcher has not taken when the job is over for everyone: it is not coming for it any more.
constexpr std::chrono::hours kOutputPatience{24};

std::set<base::IpAddress> addresses_of(const v1::Hello& hello) {
  std::set<base::IpAddress> addresses;
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    const auto address = base::IpAddress::parse(entry.address());
    if (address.ok()) addresses.insert(*address);
  }
  return addresses;
}

std::int64_t to_ns(base::MonotonicTime time) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time.time_since_epoch()).count();
}

}  // namespace

class Agent::Core {
 public:
  Core(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, Warden warden, AgentLink link)
      : join_(std::move(join)),
        hello_(std::move(hello)),
        login_environment_(std::move(login_environment)),
        warden_(std::move(warden)),
        link_(std::move(link)),
        owners_(addresses_of(hello_), [this](v1::OwnerQuestion question) { ask_owner(std::move(question)); }),
        stores_(loop_, owners_.check(),
                {.on_problem = [this](const base::Status& problem) { log(problem); },
                 .on_unreachable = [this](const std::string& text) { notice(text); }}),
        stacks_(loop_, [this](v1::StackAnswer answer) { answer_stacks(std::move(answer)); }),
        inputs_(loop_, [this](v1::InputTaken taken) {
          v1::AgentMessage message;
          *message.mutable_input_taken() = std::move(taken);
          send(std::move(message));
        }) {}

  int run();

 private:
  void open_link();
  void watch_stdin();
  base::Status make_sender();
  void handle(const v1::LauncherMessage& message);
  void prepare(const v1::Prepare& prepare);
  base::Status prepare_master_port(const v1::Prepare& prepare, v1::Prepared& answer);
  void ask_owner(v1::OwnerQuestion question);
  void log(const base::Status& problem);
  void ask_stacks(const v1::StackQuestion& question);
  void answer_stacks(v1::StackAnswer answer);
  void launch(const v1::Launch& launch);
  std::vector<std::string> rank_environment(const v1::Launch& launch, const v1::LaunchRank& rank) const;
  void stop(std::chrono::milliseconds grace);
  void suspend(bool on);
  void leave();
  void launcher_lost(const std::string& why);
  void check_lease();

  void warden_readable();
  void warden_gone();
  void on_event(RankStarted& started);
  void on_event(RankStartFailed& failed);
  void on_event(RankExited& exited);
  void on_event(JobEmpty& empty);
  void on_event(LeaseExpired& expired);
  void spawn_was_tried();
  void rank_is_over(int rank);
  void got_stderr_tail(int rank, const std::string& text);
  void maybe_host_empty();
  void notice(const std::string& text);
  void contact();
  void send(v1::AgentMessage message) { control_->send(std::move(message)); }

  const v1::AgentJoin join_;
  const v1::Hello hello_;
  const base::Environment login_environment_;
  base::Loop loop_;
  Warden warden_;
  AgentLink link_;
  base::Timer stdin_watch_;
  base::Timer warden_watch_;
  base::Timer lease_timer_;
  base::UniqueFd held_port_;
  PeerOwners owners_;
  JobStores stores_;
  StackReader stacks_;
  base::UniqueFd output_over_mux_;
  RankInputs inputs_;
  std::set<int> running_;               // told to start and not over
  std::set<int> tails_due_;             // exited, stderr tail not sent yet
  std::set<int> with_output_;           // handed to the sender
  std::map<int, pid_t> rank_pids_;      // of those that have started and are not over
  std::string failure_;                 // why this host failed the job
  std::optional<v1::HostEmpty> empty_;  // what JobEmpty said, until it may be sent
  base::MonotonicTime last_contact_{};
  int spawns_due_ = 0;
  bool launched_ = false;
  bool stopping_ = false;
  bool suspended_ = false;
  bool lost_ = false;
  bool warden_lost_ = false;
  bool is_over_ = false;
  int status_ = 0;
  // Last, so that their threads end before what they post to.
  std::unique_ptr<proto::Mux> mux_;
  std::unique_ptr<ControlClient> control_;
  std::unique_ptr<OutputSender> sender_;
};

int Agent::Core::run() {
  contact();
  open_link();
  warden_watch_ = loop_.on_readable(warden_.fd(), [this] { warden_readable(); });
  lease_timer_ = loop_.every(kLeaseCheck, [this] { check_lease(); });
  loop_.run();
  // The launcher's TERM may come while we clean up: from here on nobody else would remove the session directory.
  // (Before, the warden does: it sees our end without having been told to leave.)
  ::signal(SIGTERM, SIG_IGN);
  if (sender_ != nullptr) sender_->stop();
  sender_.reset();
  control_.reset();
  mux_.reset();
  const base::Status closed = warden_.close();  // also of a lost one: its session directory is ours to remove then
  if (!closed.ok()) base::print_remark("muster-agent: {}\n", closed.message());
  return status_;
}

void Agent::Core::open_link() {
  ControlClientOptions options;
  options.ca_pem = join_.ca_pem();
  options.certificate_pem = join_.certificate_pem();
  options.key_pem = join_.key_pem();
  options.token = join_.token();
  if (link_.dialled) {
    options.endpoint = base::format_endpoint(link_.dialled->address, static_cast<std::uint16_t>(join_.control_port()));
    watch_stdin();
  } else {
    auto control = base::make_socketpair(SOCK_STREAM);
    auto output = base::make_socketpair(SOCK_STREAM);
    MUSTER_CHECK(control.ok() && output.ok());
    std::vector<base::UniqueFd> locals;
    locals.push_back(std::move(control->first));
    locals.push_back(std::move(output->first));
    mux_ = std::make_unique<proto::Mux>(
        base::UniqueFd(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)),
        base::UniqueFd(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3)), std::move(locals),
        [this](const base::Status&) { loop_.post([this] { launcher_lost("the ssh channel was closed"); }); });
    options.fd = std::move(control->second);
    output_over_mux_ = std::move(output->second);
  }
  control_ = ControlClient::start(loop_, std::move(options), hello_);
  control_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
}

void Agent::Core::watch_stdin() {
  stdin_watch_ = loop_.on_readable(STDIN_FILENO, [this] {
    char ignored[256];
    const ssize_t n = ::read(STDIN_FILENO, ignored, sizeof ignored);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    stdin_watch_.cancel();
    launcher_lost("the launcher closed the connection");
  });
}

void Agent::Core::contact() {
  last_contact_ = std::chrono::steady_clock::now();
  if (!suspended_) warden_.renew_lease(last_contact_ + std::chrono::milliseconds(join_.lease_ms()));
}

void Agent::Core::check_lease() {
  if (suspended_ || lost_) return;
  if (std::chrono::steady_clock::now() - last_contact_ > std::chrono::milliseconds(join_.lease_ms())) {
    launcher_lost("the launcher was not heard of for the length of the lease");
  }
}

void Agent::Core::handle(const v1::LauncherMessage& message) {
  contact();
  switch (message.body_case()) {
    case v1::LauncherMessage::kPing: {
      v1::AgentMessage answer;
      answer.mutable_pong()->set_launcher_ns(message.ping().launcher_ns());
      answer.mutable_pong()->set_agent_ns(to_ns(std::chrono::steady_clock::now()));
      control_->send_unnumbered(std::move(answer));
      break;
    }
    case v1::LauncherMessage::kPrepare:
      prepare(message.prepare());
      break;
    case v1::LauncherMessage::kLaunch:
      launch(message.launch());
      break;
    case v1::LauncherMessage::kSignalRanks: {
      const base::Status sent = warden_.signal(-1, message.signal_ranks().signal());
      if (!sent.ok()) notice(sent.message());
      break;
    }
    case v1::LauncherMessage::kStopRanks:
      stop(std::chrono::milliseconds(message.stop_ranks().grace_ms()));
      break;
    case v1::LauncherMessage::kSuspend:
      suspend(message.suspend().on());
      break;
    case v1::LauncherMessage::kLeave:
      leave();
      break;
    case v1::LauncherMessage::kOwnerQuestion: {
      v1::AgentMessage answer;
      *answer.mutable_owner_answer() = PeerOwners::answer(message.owner_question());
      send(std::move(answer));
      break;
    }
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
    default:
      break;  // Welcome, or a body from a newer launcher
  }
}

void Agent::Core::ask_stacks(const v1::StackQuestion& question) {
  std::map<int, pid_t> pids;
  for (const auto& [rank, pid] : rank_pids_) {
    const bool is_meant =
        question.ranks().empty() || std::ranges::find(question.ranks(), rank) != question.ranks().end();
    if (is_meant) pids.emplace(rank, pid);
  }
  stacks_.ask(question.id(), pids);
}

void Agent::Core::answer_stacks(v1::StackAnswer answer) {
  v1::AgentMessage message;
  *message.mutable_stack_answer() = std::move(answer);
  send(std::move(message));
}

void Agent::Core::prepare(const v1::Prepare& prepare) {
  v1::AgentMessage message;
  v1::Prepared& answer = *message.mutable_prepared();
  auto route = find_route(prepare.master_address());
  if (!route.ok()) {
    answer.set_error(fmt::format("cannot reach rank 0's host at {} ({}): check the network between the hosts",
                                 prepare.master_address(), route.status().message()));
  } else {
    answer = *route;
    base::Status prepared = stores_.open(prepare, answer);
    if (prepared.ok()) prepared = prepare_master_port(prepare, answer);
    if (!prepared.ok()) answer.set_error(prepared.message());
  }
  send(std::move(message));
}

base::Status Agent::Core::prepare_master_port(const v1::Prepare& prepare, v1::Prepared& answer) {
  if (!prepare.hold_master_port() || prepare.serve_torch()) return base::ok_status();
  MUSTER_ASSIGN_OR_RETURN(held_port_, hold_port());
  MUSTER_ASSIGN_OR_RETURN(const std::uint16_t port, base::local_port(held_port_.get()));
  answer.set_master_port(port);
  return base::ok_status();
}

void Agent::Core::ask_owner(v1::OwnerQuestion question) {
  v1::AgentMessage message;
  *message.mutable_owner_question() = std::move(question);
  send(std::move(message));
}

// To the launcher's --verbose, over stderr and the bootstrap.
void Agent::Core::log(const base::Status& problem) {
  if (join_.verbose()) base::print_remark("muster-agent: {}\n", problem.message());
}

base::Status Agent::Core::make_sender() {
  MUSTER_ASSIGN_OR_RETURN(
      const auto tls,
      base::TlsContext::client({proto::output_identity(join_.job_id(), join_.agent_index()), join_.token()}));
  // Shared: the connect function runs on the sender's helper thread and outlives this call.
  struct Route {
    std::optional<base::IpAddress> address;
    base::UniqueFd first;  // used once; over a mux there is no second
    std::uint16_t port = 0;
  };
  auto route = std::make_shared<Route>();
  route->port = static_cast<std::uint16_t>(join_.output_port());
  if (link_.dialled) {
    route->address = link_.dialled->address;
    route->first = std::move(link_.dialled->fd);
  } else {
    route->first = std::move(output_over_mux_);
  }
  OutputSenderConfig config{
      .connect = [route](base::MonotonicTime deadline, int cancel_fd) -> base::Result<base::UniqueFd> {
        if (route->first.valid()) return std::move(route->first);
        if (!route->address) return base::error(base::Code::kFailedPrecondition, "the ssh channel is gone");
        MUSTER_ASSIGN_OR_RETURN(Dialled dialled, dial_first({*route->address}, route->port, deadline, cancel_fd));
        return std::move(dialled.fd);
      },
      .tls = tls,
      .agent_index = join_.agent_index()};
  OutputSenderEvents events;
  events.on_stderr_tail = [this](int rank, std::string tail) {
    loop_.post([this, rank, tail = std::move(tail)] { got_stderr_tail(rank, tail); });
  };
  sender_ = std::make_unique<OutputSender>(std::move(config), std::move(events));
  return base::ok_status();
}

void Agent::Core::launch(const v1::Launch& launch) {
  if (std::exchange(launched_, true)) return;
  base::Status made = make_sender();
  if (made.ok()) made = stores_.serve_ranks(launch);
  // All of them first: a rank that fails at once must not look like the last one.
  spawns_due_ = launch.ranks_size();
  for (const v1::LaunchRank& rank : launch.ranks()) running_.insert(rank.rank());
  const std::vector<RlimitSetting> limits = merge_limits(default_limits(), proto::limits_of(launch));
  for (const v1::LaunchRank& rank : launch.ranks()) {
    SpawnRequest request;
    request.rank = rank.rank();
    const auto& command = rank.command().empty() ? launch.command() : rank.command();
    request.argv.assign(command.begin(), command.end());
    request.env = rank_environment(launch, rank);
    request.workdir = launch.workdir();
    request.umask = launch.umask();
    request.cpus.assign(rank.cpus().begin(), rank.cpus().end());
    request.limits = limits;
    inputs_.plan(rank, request);
    const base::Status spawned = made.ok() ? warden_.spawn(request) : made;
    if (!spawned.ok()) {
      RankStartFailed failed;
      failed.rank = rank.rank();
      failed.message = spawned.message();
      on_event(failed);
    }
  }
}

std::vector<std::string> Agent::Core::rank_environment(const v1::Launch& launch, const v1::LaunchRank& rank) const {
  // Ranks of another launcher's job (a scheduler's step that sshd inherited) are not what these are.
  base::Environment environment;
  for (const auto& [name, value] : login_environment_.entries()) {
    if (!model::is_rank_variable(name)) environment.set(name, value);
  }
  for (const auto& [name, value] : proto::environment_of(launch.environment())) environment.set(name, value);
  for (const auto& [name, value] : proto::environment_of(rank.environment())) environment.set(name, value);
  for (const auto& [name, value] : stores_.variables()) environment.set(name, value);
  environment.set("PWD", launch.workdir());  // the launcher's own one may be another directory (--wdir)
  environment.unset("OLDPWD");
  return environment.to_strings();
}

void Agent::Core::stop(std::chrono::milliseconds grace) {
  stopping_ = true;
  if (empty_ || is_over_) return;
  if (!launched_) return;
  if (suspended_) suspend(false);
  const base::Status stopped = warden_.stop(grace);
  if (!stopped.ok()) notice(stopped.message());
}

void Agent::Core::suspend(bool on) {
  suspended_ = on;
  if (on) {
    warden_.suspend_lease();
  } else {
    contact();
  }
  const base::Status paused = warden_.pause(on);
  if (!paused.ok()) notice(paused.message());
  v1::AgentMessage message;
  message.mutable_suspended()->set_on(on);
  send(std::move(message));
}

void Agent::Core::leave() {
  if (launched_ && !is_over_) {
    launcher_lost("the launcher left");
    return;
  }
  loop_.stop();
}

void Agent::Core::launcher_lost(const std::string& why) {
  if (std::exchange(lost_, true)) return;
  if (!launched_ || is_over_) {
    loop_.stop();
    return;
  }
  // stderr may be a closed channel by now; SIGPIPE is ignored and this line is only for a log that still listens.
  base::print_remark("muster-agent: {}: ending the ranks\n", why);
  stop(std::chrono::milliseconds(0));
}

void Agent::Core::warden_readable() {
  auto events = warden_.read_events();
  if (!events.ok()) {
    warden_gone();
    return;
  }
  for (WardenEvent& event : *events) {
    std::visit([this](auto& what) { on_event(what); }, event);
  }
}

void Agent::Core::warden_gone() {
  warden_watch_.cancel();
  warden_lost_ = true;
  failure_ = "the warden, the parent of the ranks, was killed; the ranks were ended";
  Warden::Aftermath aftermath = warden_.clean_up_without_warden({stacks_.pid()});
  for (RankExited& exited : aftermath.ranks) on_event(exited);
  for (const int rank : std::set<int>(running_)) {
    RankStartFailed failed;
    failed.rank = rank;
    failed.message = "it was lost with the warden, which was killed";
    on_event(failed);
  }
  on_event(aftermath.empty);
}

void Agent::Core::on_event(RankStarted& started) {
  rank_pids_[started.rank] = started.pid;
  with_output_.insert(started.rank);
  sender_->add_rank(
      started.rank, std::move(started.stdout_fd), std::move(started.stderr_fd),
      inputs_.has_terminal(started.rank) ? OutputSender::StreamKind::kTerminal : OutputSender::StreamKind::kLines);
  inputs_.started(started);
  v1::AgentMessage message;
  v1::RankStarted& body = *message.mutable_rank_started();
  body.set_rank(started.rank);
  body.set_pid(started.pid);
  body.set_pid_inside(started.pid_inside);
  body.set_agent_ns(to_ns(started.at));
  send(std::move(message));
  spawn_was_tried();
}

void Agent::Core::spawn_was_tried() {
  if (--spawns_due_ > 0) return;
  v1::AgentMessage message;
  message.mutable_launched();
  send(std::move(message));
}

void Agent::Core::on_event(RankStartFailed& failed) {
  v1::AgentMessage message;
  v1::RankStartFailed& body = *message.mutable_rank_start_failed();
  body.set_rank(failed.rank);
  body.set_exit_code(failed.exit_code);
  body.set_message(failed.message);
  body.set_agent_ns(to_ns(std::chrono::steady_clock::now()));
  body.set_stopped_by_us(failed.errno_value == ECANCELED);
  send(std::move(message));
  spawn_was_tried();
  rank_is_over(failed.rank);
}

void Agent::Core::on_event(RankExited& exited) {
  v1::AgentMessage message;
  v1::RankExited& body = *message.mutable_rank_exited();
  body.set_rank(exited.rank);
  body.set_pid(exited.pid);
  body.set_pid_inside(exited.pid_inside);
  body.set_wait_status(exited.wait_status);
  body.set_stopped_by_us(exited.signalled_by_us);
  body.set_out_of_memory(exited.oom_killed);
  body.set_agent_ns(to_ns(exited.at));
  send(std::move(message));
  if (with_output_.contains(exited.rank)) {
    tails_due_.insert(exited.rank);
    sender_->rank_exited(exited.rank);
  }
  rank_is_over(exited.rank);
}

void Agent::Core::rank_is_over(int rank) {
  running_.erase(rank);
  inputs_.over(rank);
  rank_pids_.erase(rank);
  if (!running_.empty()) return;
  if (sender_ != nullptr) {
    // The launcher's hub tells the launcher when everything arrived; nobody waits here.
    sender_->finish(std::chrono::steady_clock::now() + kOutputPatience, [](const base::Status&) {});
  }
  if (stopping_ || warden_lost_) return;
  const base::Status finished = warden_.finish();
  if (!finished.ok()) notice(finished.message());
}

void Agent::Core::on_event(JobEmpty& empty) {
  v1::HostEmpty body;
  body.set_failure(failure_);
  for (const Leftover& leftover : empty.killed) {
    v1::Leftover& to = *body.add_killed();
    to.set_pid(leftover.pid);
    to.set_command(leftover.command);
    to.set_reason(leftover.why);
  }
  for (const Unkillable& stuck : empty.stuck) {
    v1::Leftover& to = *body.add_stuck();
    to.set_pid(stuck.pid);
    to.set_command(stuck.command);
    to.set_reason(fmt::format("state {}, waits in {}", stuck.state, stuck.wchan.empty() ? "?" : stuck.wchan));
  }
  empty_ = std::move(body);
  maybe_host_empty();
}

void Agent::Core::on_event(LeaseExpired&) {
  launcher_lost("the warden found the lease expired");
}

void Agent::Core::got_stderr_tail(int rank, const std::string& text) {
  v1::AgentMessage message;
  message.mutable_rank_stderr_tail()->set_rank(rank);
  message.mutable_rank_stderr_tail()->set_text(text);
  send(std::move(message));
  tails_due_.erase(rank);
  maybe_host_empty();
}

void Agent::Core::maybe_host_empty() {
  if (!empty_ || !tails_due_.empty() || is_over_) return;
  is_over_ = true;
  held_port_.reset();
  v1::AgentMessage message;
  *message.mutable_host_empty() = *empty_;
  send(std::move(message));
  if (lost_) loop_.stop();
}

void Agent::Core::notice(const std::string& text) {
  v1::AgentMessage message;
  message.mutable_notice()->set_text(text);
  send(std::move(message));
}

Agent::Agent(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, Warden warden, AgentLink link)
    : core_(std::make_unique<Core>(std::move(join), std::move(hello), std::move(login_environment), std::move(warden),
                                   std::move(link))) {}

Agent::~Agent() = default;

int Agent::run() {
  return core_->run();
}

}  // namespace muster::agent
