// The whole of Agent: it dispatches the launcher's messages to the only job (JobSession) or to the warm jobs
// (WarmJobs).
// Read the members of Core first, then run() and open_link(), then handle() and pass_on(), which sort messages.

#include "agent/job/agent.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "agent/gpus/reader.h"
#include "agent/host/load_report.h"
#include "agent/job/agent_lease.h"
#include "agent/job/agent_messages.h"
#include "agent/job/job_session.h"
#include "agent/job/output_route.h"
#include "agent/job/peer_owners.h"
#include "agent/job/warm_jobs.h"
#include "agent/link/control_client.h"
#include "agent/link/gone_check.h"
#include "agent/link/relay_watch.h"
#include "agent/link/suspended_link.h"
#include "agent/proc/agent_files.h"
#include "agent/process/dead_man_timer.h"
#include "agent/relay/relay_server.h"
#include "base/clock.h"
#include "base/loop.h"
#include "base/print.h"
#include "proto/agent_join.h"
#include "proto/channel_mux.h"
#include "proto/control_key.h"
#include "proto/convert.h"

namespace muster::agent::inline job {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLeaseCheck{250};
constexpr milliseconds kRelayDrain{10'000};
constexpr const char* kLeaseOver = "the launcher has sent nothing for the length of the lease";

std::set<base::IpAddress> addresses_of(const v1::Hello& hello) {
  std::set<base::IpAddress> addresses;
  for (const v1::NetworkInterface& entry : hello.interfaces()) {
    const auto address = base::IpAddress::parse(entry.address());
    if (address.ok()) addresses.insert(*address);
  }
  return addresses;
}

}  // namespace

class Agent::Core {
 public:
  Core(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, WardenSource wardens, AgentLink link,
       NvidiaSurvey nvidia)
      : join_(std::move(join)),
        hello_(std::move(hello)),
        killed_helpers_(loop_),
        host_{loop_,           std::move(login_environment),           addresses_of(hello_),
              join_.verbose(), gpus_of_host(std::move(nvidia.report)), [this] { return gpu_helpers(); }},
        link_(std::move(link)) {
    for (gpus::Helper& hung : nvidia.hung) killed_helpers_.take(hung.kill_unreaped());
    if (proto::is_kept(join_)) {
      dead_man_.emplace();
      lease_.emplace(milliseconds(join_.lease_ms()), [this](const auto& at) { dead_man_->set(at); });
    }
    if (auto* const nursery = std::get_if<Nursery>(&wardens)) {
      make_jobs(std::move(*nursery));
    } else {
      make_session(std::get<Warden>(std::move(wardens)));
    }
  }

  int run();

 private:
  gpus::Reader* make_gpu_reader();
  HostGpus gpus_of_host(gpus::GpuReport nvidia);
  void make_session(Warden warden);
  void make_jobs(Nursery nursery);
  base::Status open_link();
  base::Status open_channel(ControlClientOptions& options);
  void watch_stdin();
  base::Result<OutputSenderConfig> output_of_only_job();
  base::Result<OutputSenderConfig> output_of(const std::string& job_id, const v1::OpenJob& order);
  void handle(const v1::LauncherMessage& message);
  void pass_on(const v1::LauncherMessage& message);
  base::Status serve_relay();
  void relay_is_silent();
  void answer(const v1::LauncherMessage& question, v1::AgentMessage answer, bool is_numbered);
  void contact();
  void check_lease();
  void follow_jobs();
  void cut(const StreamEnd& end);
  void link_is_gone(const std::string& why);
  void leave(const std::string& why);
  void jobs_are_idle();
  std::vector<pid_t> gpu_helpers() const;

  const v1::AgentJoin join_;
  const v1::Hello hello_;
  base::Loop loop_;
  gpus::KilledHelpers killed_helpers_;
  std::optional<gpus::Reader> gpus_;  // empty if there are no GPUs to ask about
  const SessionHost host_;
  AgentLink link_;
  base::Timer stdin_watch_;
  base::Timer lease_timer_;
  base::Timer in_use_timer_;
  base::MonotonicTime last_contact_{};
  base::MonotonicTime idle_since_{};
  bool is_suspended_ = false;  // the only job, or one of the jobs, is suspended
  bool is_leaving_ = false;
  std::optional<DeadManTimer> dead_man_;  // used by lease_; the warden of an only job has one of its own
  std::optional<AgentLease> lease_;       // only in an agent that hvdrun keeps
  std::unique_ptr<LoadReport> load_;      // set by open_link()
  base::UniqueFd output_over_mux_;
  RelayWatch relay_watch_{loop_, [this] { relay_is_silent(); }};
  // The next members come last, so that their threads end before the objects to which they post.
  // Sessions follow the link that carries their output, so that they end before the link does.
  std::unique_ptr<proto::Mux> mux_;
  std::unique_ptr<GoneCheck> gone_;           // only in launcherd's agent that has dialled
  std::unique_ptr<SuspendedLink> suspended_;  // only in hvdrun's agent that has dialled
  std::unique_ptr<ControlClient> control_;
  std::unique_ptr<JobSession> session_;  // hvdrun's only job; null in a warm agent
  std::unique_ptr<RelayServer> relay_;   // only in a relay
  std::unique_ptr<WarmJobs> jobs_;       // launcherd's jobs, or the generations of hvdrun's job; else null
};

// nullptr if the host has no GPUs to ask about, or if no job here needs facts about GPUs.
gpus::Reader* Agent::Core::make_gpu_reader() {
  gpus::Question question = question_about(hello_);
  if (join_.without_gpus() || (!question.nvidia && !question.files)) return nullptr;
  return &gpus_.emplace(loop_, host_.login_environment, killed_helpers_, gpus::kSurveyPatience, std::move(question));
}

// main asked about the GPUs just before hvdrun's only job, so that job may use the report. Jobs of a warm agent start
// later and must ask again.
HostGpus Agent::Core::gpus_of_host(gpus::GpuReport nvidia) {
  HostGpus gpus{.reader = make_gpu_reader(),
                .known = proto::node_shape_of(hello_).gpus,
                .problem = hello_.gpu_problem(),
                .seen = std::nullopt};
  const bool is_seen = gpus.reader != nullptr && !gpus.reader->question().files && !nvidia.driver.empty();
  if (is_seen && !join_.warm()) gpus.seen = std::move(nvidia);
  return gpus;
}

void Agent::Core::make_session(Warden warden) {
  SessionOptions options;
  options.lease = milliseconds(join_.lease_ms());
  options.output = [this] { return output_of_only_job(); };
  SessionEvents events;
  events.send = [this](v1::AgentMessage message) { control_->send(std::move(message)); };
  events.send_unnumbered = [this](v1::AgentMessage message) { control_->send_unnumbered(std::move(message)); };
  events.on_done = [this] { loop_.stop(); };
  events.others = [] { return std::vector<pid_t>(); };
  session_ = std::make_unique<JobSession>(host_, std::move(warden), std::move(options), std::move(events));
}

void Agent::Core::make_jobs(Nursery nursery) {
  WarmJobs::Events events;
  events.send = [this](v1::AgentMessage message) { control_->send(std::move(message)); };
  events.send_unnumbered = [this](v1::AgentMessage message) { control_->send_unnumbered(std::move(message)); };
  events.output = [this](const std::string& job_id, const v1::OpenJob& order) { return output_of(job_id, order); };
  events.on_idle = [this] { jobs_are_idle(); };
  events.launcher_suspends_itself = proto::ends_with_log_in(join_);
  jobs_ = std::make_unique<WarmJobs>(host_, std::move(nursery), std::move(events));
}

int Agent::Core::run() {
  contact();
  idle_since_ = base::monotonic_now();
  if (const base::Status opened = open_link(); !opened.ok()) {
    base::print_remark("muster-agent: {}\n", opened.message());
    return 1;
  }
  lease_timer_ = loop_.every(kLeaseCheck, [this] { check_lease(); });
  mark_agent_file_used();
  in_use_timer_ = loop_.every(kAgentFileMarkPeriod, [] { mark_agent_file_used(); });
  loop_.run();
  // Ignore TERM from here on. A TERM from the launcher would otherwise end the agent during its cleanup, and the
  // session directory would stay. If TERM ends the agent before this point, the warden removes the directory.
  ::signal(SIGTERM, SIG_IGN);
  if (lease_) lease_->ending(base::monotonic_now());
  if (session_ != nullptr) {
    const base::Status closed = session_->close_blocking();
    if (!closed.ok()) base::print_remark("muster-agent: {}\n", closed.message());
    session_.reset();
  }
  jobs_.reset();
  // The other hosts end now, too, and still need this relay.
  if (relay_ != nullptr) relay_->drain_blocking(base::monotonic_now() + kRelayDrain);
  gpus_.reset();  // reaps the GPU helper
  control_.reset();
  if (proto::ends_with_log_in(join_)) return 0;  // the mux still carries the last bytes
  mux_.reset();
  return 0;
}

base::Status Agent::Core::open_link() {
  ControlClientOptions options;
  options.key = proto::control_key(join_.job_id(), join_.token());
  options.port = static_cast<std::uint16_t>(join_.control_port());
  if (link_.route != nullptr) {
    options.route = link_.route;
    if (proto::ends_with_log_in(join_)) {
      watch_stdin();
      suspended_ = std::make_unique<SuspendedLink>(
          loop_, link_.route->launcher(), options.port, milliseconds(join_.lease_ms()), [this](const std::string& why) {
            link_is_gone(fmt::format("the launcher was lost while it was suspended: {}", why));
          });
    }
  } else {
    MUSTER_RETURN_IF_ERROR(open_channel(options));
  }
  const std::uint16_t port = options.port;
  control_ = ControlClient::start(loop_, std::move(options), hello_);
  control_->on_message = [this](const v1::LauncherMessage& message) { handle(message); };
  load_ = std::make_unique<LoadReport>(
      loop_, HostLoadReader(), [this](v1::AgentMessage message) { control_->send_unnumbered(std::move(message)); },
      LoadReport::Gpus{host_.gpus.reader, host_.gpus.known});
  control_->on_cut = [this](const StreamEnd& end) { cut(end); };
  control_->on_hello = [this](v1::Hello& hello) {
    if (jobs_ != nullptr) jobs_->list_held(hello);
    if (relay_ != nullptr) hello.set_relay_port(relay_->port());
  };
  if (join_.serves_relay()) {
    if (const base::Status served = serve_relay(); !served.ok()) {
      base::print_remark("muster-agent: cannot serve as a relay: {}\n", served.message());
    }
  }
  if (jobs_ == nullptr) return base::ok_status();
  control_->on_new_launcher = [this] { jobs_->launcher_is_new(); };
  if (link_.route == nullptr || proto::ends_with_log_in(join_)) return base::ok_status();
  gone_ = std::make_unique<GoneCheck>(loop_, link_.route->launcher(), port, [this] { jobs_->launcher_is_gone(); });
  return base::ok_status();
}

base::Status Agent::Core::open_channel(ControlClientOptions& options) {
  MUSTER_ASSIGN_OR_RETURN(base::FdPair control, base::make_socketpair(SOCK_STREAM));
  MUSTER_ASSIGN_OR_RETURN(base::FdPair output, base::make_socketpair(SOCK_STREAM));
  base::UniqueFd from_launcher(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  base::UniqueFd to_launcher(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  if (!from_launcher.valid() || !to_launcher.valid()) return base::errno_error(errno, "open the ssh channel");
  std::vector<base::UniqueFd> locals;
  locals.push_back(std::move(control.first));
  locals.push_back(std::move(output.first));
  mux_ = std::make_unique<proto::Mux>(
      std::move(from_launcher), std::move(to_launcher), std::move(locals),
      [this](const base::Status&) { loop_.post([this] { link_is_gone("the ssh channel was closed"); }); });
  options.fd = std::move(control.second);
  output_over_mux_ = std::move(output.second);
  return base::ok_status();
}

void Agent::Core::watch_stdin() {
  stdin_watch_ = loop_.on_readable(STDIN_FILENO, [this] {
    char ignored[256];
    const ssize_t n = ::read(STDIN_FILENO, ignored, sizeof ignored);
    if (n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR))) return;
    stdin_watch_.cancel();
    link_is_gone("the launcher closed the connection");
  });
}

base::Result<OutputSenderConfig> Agent::Core::output_of_only_job() {
  const OutputKey key{join_.job_id(), join_.agent_index(), join_.token()};
  if (link_.route == nullptr) return output_by_channel(key, std::move(output_over_mux_));
  return output_by_route(key, link_.route, static_cast<std::uint16_t>(join_.output_port()), std::move(link_.output));
}

base::Result<OutputSenderConfig> Agent::Core::output_of(const std::string& job_id, const v1::OpenJob& order) {
  const OutputKey key{job_id, order.agent_index(), order.output_token()};
  if (link_.route != nullptr) {
    return output_by_route(key, link_.route, static_cast<std::uint16_t>(order.output_port()), {});
  }
  if (output_over_mux_.valid()) return output_by_channel(key, std::move(output_over_mux_));
  return base::resource_exhausted(
      "an agent that is linked through ssh carries the output of only one job; let agents dial back "
      "(--agent-link dial)");
}

void Agent::Core::contact() {
  last_contact_ = base::monotonic_now();
  if (session_ != nullptr) session_->contact(last_contact_);
  if (jobs_ != nullptr) jobs_->contact(last_contact_);
  if (lease_) lease_->contact(last_contact_);
}

void Agent::Core::check_lease() {
  const base::MonotonicTime time = base::monotonic_now();
  if (session_ != nullptr) session_->check(time);
  if (jobs_ != nullptr) jobs_->check_leases(time);
  follow_jobs();
  if (lease_ && lease_->is_over(time)) leave(kLeaseOver);
  if (proto::ends_with_log_in(join_)) return;
  if (!jobs_->is_idle() || (relay_ != nullptr && relay_->children() > 0)) {
    idle_since_ = time;
    if (!jobs_->is_idle()) return;
  }
  const bool is_unwanted = join_.idle_timeout_ms() > 0 && time - idle_since_ > milliseconds(join_.idle_timeout_ms());
  if (is_unwanted || time - last_contact_ > milliseconds(join_.lease_ms())) loop_.stop();
}

// A job that is stopped, lost or left is suspended no longer, also if no order to continue it has come. So the next
// generation of hvdrun's job begins with a lease that runs.
void Agent::Core::follow_jobs() {
  const bool is_suspended = session_ != nullptr ? session_->is_suspended() : jobs_->is_any_suspended();
  if (is_suspended != std::exchange(is_suspended_, is_suspended) && suspended_ != nullptr) {
    if (is_suspended) {
      suspended_->begin();
    } else {
      suspended_->end();
    }
  }
  if (!lease_) return;
  lease_->follow({.is_suspended = is_suspended, .is_ending = jobs_->is_any_ending()}, base::monotonic_now());
}

void Agent::Core::handle(const v1::LauncherMessage& message) {
  contact();
  switch (message.body_case()) {
    case v1::LauncherMessage::kWelcome:
      if (gone_ != nullptr) gone_->end();
      if (session_ != nullptr) session_->stream_is_up();
      if (jobs_ != nullptr) jobs_->stream_is_up();
      if (message.welcome().wants_load()) load_->begin();
      if (const auto relay = control_->relay()) relay_watch_.begin(*relay);
      break;
    case v1::LauncherMessage::kPing:
      answer(message, pong_of(message.ping(), base::monotonic_now()), false);
      break;
    case v1::LauncherMessage::kOwnerQuestion: {
      v1::AgentMessage body;
      *body.mutable_owner_answer() = PeerOwners::answer(message.owner_question());
      // Send the answer unnumbered, because the connection waits only some seconds for it.
      answer(message, std::move(body), false);
      break;
    }
    default:
      pass_on(message);
      break;
  }
}

void Agent::Core::pass_on(const v1::LauncherMessage& message) {
  if (session_ != nullptr) {
    session_->handle(message);
  } else if (!message.job_id().empty()) {
    jobs_->handle(message);
  } else if (message.has_leave()) {
    leave("the launcher left");
  }
  follow_jobs();
}

base::Status Agent::Core::serve_relay() {
  if (relay_ != nullptr) return base::ok_status();
  if (link_.route == nullptr) return base::failed_precondition("the agent is linked through ssh");
  MUSTER_ASSIGN_OR_RETURN(relay_, RelayServer::start({.launcher = link_.route->launcher(),
                                                      .control_port = static_cast<std::uint16_t>(join_.control_port()),
                                                      .output_port = static_cast<std::uint16_t>(join_.output_port())}));
  return base::ok_status();
}

// A relay may be stopped and keep its connections. Then the launcher is reached directly.
void Agent::Core::relay_is_silent() {
  link_.route->leave_relay();
  control_->reconnect("the relay does not answer");
}

void Agent::Core::answer(const v1::LauncherMessage& question, v1::AgentMessage answer, bool is_numbered) {
  answer.set_job_id(question.job_id());
  if (is_numbered) {
    control_->send(std::move(answer));
  } else {
    control_->send_unnumbered(std::move(answer));
  }
}

void Agent::Core::cut(const StreamEnd& end) {
  load_->end();
  relay_watch_.end();
  if (session_ != nullptr) session_->stream_is_cut();
  if (jobs_ != nullptr) jobs_->stream_is_cut();
  if (gone_ != nullptr && jobs_->has_unheld()) gone_->begin(end.is_by_launcher);
}

void Agent::Core::link_is_gone(const std::string& why) {
  if (session_ != nullptr) return session_->launcher_lost(why);
  leave(why);  // leave now, because no launcher can connect again over this channel
}

void Agent::Core::leave(const std::string& why) {
  if (std::exchange(is_leaving_, true)) return;
  if (lease_) {
    lease_->ending(base::monotonic_now());
    ::signal(SIGTERM, SIG_IGN);  // for the same reason as in run(): sessions are closed before the loop ends
  }
  jobs_->end_all(why);
}

void Agent::Core::jobs_are_idle() {
  idle_since_ = base::monotonic_now();
  follow_jobs();
  if (is_leaving_ || jobs_->is_broken()) loop_.stop();
}

std::vector<pid_t> Agent::Core::gpu_helpers() const {
  std::vector<pid_t> pids = killed_helpers_.pids();
  if (gpus_ && gpus_->pid() != 0) pids.push_back(gpus_->pid());
  return pids;
}

Agent::Agent(v1::AgentJoin join, v1::Hello hello, base::Environment login_environment, WardenSource wardens,
             AgentLink link, NvidiaSurvey nvidia)
    : core_(std::make_unique<Core>(std::move(join), std::move(hello), std::move(login_environment), std::move(wardens),
                                   std::move(link), std::move(nvidia))) {}

Agent::~Agent() = default;

int Agent::run() {
  return core_->run();
}

}  // namespace muster::agent::job
