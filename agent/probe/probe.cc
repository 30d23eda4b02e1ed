// The whole of the probe, in class Probe. Read serve() and answer() first, then facts(), which collects everything.
// The add_… functions each add one part of the facts.

#include "agent/probe/probe.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>

#include "agent/gpus/gpus.h"
#include "agent/host/host_facts.h"
#include "agent/job/agent.h"
#include "agent/link/dial.h"
#include "agent/probe/gpu_users.h"
#include "agent/probe/limits.h"
#include "agent/probe/logind.h"
#include "agent/probe/nics.h"
#include "agent/probe/nvidia.h"
#include "agent/probe/python.h"
#include "agent/probe/spaces.h"
#include "agent/process/warden.h"
#include "base/build_id.h"
#include "base/file.h"
#include "base/strings.h"
#include "base/thread.h"
#include "model/rank_env.h"
#include "proto/convert.h"
#include "proto/frame.h"

namespace muster::agent::inline probe {
namespace {

using std::chrono::milliseconds;

constexpr int kBacklog = 1024;
constexpr milliseconds kFilesPatience{5'000};

class Probe {
 public:
  Probe(const v1::AgentJoin& join, const base::Environment& login) : join_(join), login_(login) {}

  base::Status serve();

 private:
  base::Result<bool> await_command();
  base::Result<v1::ProbeAnswer> answer(const v1::ProbeCommand& command);
  base::Result<v1::HostFacts> facts(const v1::AskFacts& asked);
  void add_contained(const v1::AskFacts& asked, v1::HostFacts& facts);
  void add_gpu_users(gpus::GpuReport seen, v1::HostFacts& facts) const;
  void add_launcher(v1::HostFacts& facts) const;
  void add_listener(v1::HostFacts& facts);
  v1::LogindFact logind() const;
  std::vector<std::string> rank_environment(const v1::AskFacts& asked) const;
  std::string session_root() const;

  const v1::AgentJoin& join_;
  const base::Environment& login_;
  base::UniqueFd listener_;  // other hosts dial it in their Reach command
};

v1::Reached reach(const std::vector<base::IpAddress>& addresses, int port, std::int64_t timeout_ms) {
  v1::Reached reached;
  const auto deadline =
      std::chrono::steady_clock::now() + milliseconds(std::clamp<std::int64_t>(timeout_ms, 1, 60'000));
  const auto dialled = dial_first(addresses, static_cast<std::uint16_t>(port), deadline, -1);
  if (dialled.ok()) {
    reached.set_address(dialled->address.str());
  } else {
    reached.set_failure(dialled.status().message());
  }
  return reached;
}

v1::ClockReading read_clock() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  v1::ClockReading reading;
  reading.set_wall_ns(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
  return reading;
}

// Empty if there is no such driver.
std::string nvidia_driver() {
  const auto content = base::read_file("/proc/driver/nvidia/version", 4096);
  return content.ok() ? parse_nvidia_version(*content) : "";
}

base::Status Probe::serve() {
  while (true) {
    MUSTER_ASSIGN_OR_RETURN(const bool has_command, await_command());
    if (!has_command) continue;
    v1::ProbeCommand command;
    MUSTER_ASSIGN_OR_RETURN(const bool got, proto::read_message_blocking(STDIN_FILENO, command));
    if (!got) return base::ok_status();
    MUSTER_ASSIGN_OR_RETURN(const v1::ProbeAnswer reply, answer(command));
    MUSTER_ASSIGN_OR_RETURN(const std::string frame, proto::frame_message(reply));
    MUSTER_RETURN_IF_ERROR(base::write_all_blocking(STDOUT_FILENO, frame.data(), frame.size()));
  }
}

// Waits for a command. While it waits, it accepts and closes other hosts' connections, so that they do not fill the
// queue.
base::Result<bool> Probe::await_command() {
  pollfd fds[] = {{STDIN_FILENO, POLLIN, 0}, {listener_.get(), POLLIN, 0}};
  if (::poll(fds, std::size(fds), -1) < 0 && errno != EINTR) return base::errno_error(errno, "wait for the launcher");
  if (fds[1].revents != 0) const base::UniqueFd visitor(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  return fds[0].revents != 0;
}

base::Result<v1::ProbeAnswer> Probe::answer(const v1::ProbeCommand& command) {
  v1::ProbeAnswer reply;
  switch (command.body_case()) {
    case v1::ProbeCommand::kReadClock:
      *reply.mutable_clock() = read_clock();
      return reply;
    case v1::ProbeCommand::kAskFacts: {
      MUSTER_ASSIGN_OR_RETURN(*reply.mutable_facts(), facts(command.ask_facts()));
      return reply;
    }
    case v1::ProbeCommand::kReach:
      *reply.mutable_reached() =
          reach(addresses_of(command.reach().addresses()), command.reach().port(), command.reach().timeout_ms());
      return reply;
    default:
      return base::invalid_argument("unknown command: the launcher and this agent may have different versions");
  }
}

base::Result<v1::HostFacts> Probe::facts(const v1::AskFacts& asked) {
  v1::HostFacts facts;
  facts.mutable_hello()->set_build_id(std::string(base::build_id()));
  const NvidiaSurvey nvidia = ask_nvidia_blocking(login_);
  MUSTER_RETURN_IF_ERROR(fill_host_facts(login_, nvidia.report, *facts.mutable_hello()));
  if (asked.shape_only()) return facts;
  for (v1::LimitFact& fact : read_limits()) *facts.add_limits() = std::move(fact);
  for (v1::SpaceFact& fact : read_spaces(session_root(), std::string(login_.get("HOME").value_or("")))) {
    *facts.add_spaces() = std::move(fact);
  }
  *facts.mutable_logind() = logind();
  for (v1::NicFact& fact : read_nics("/sys")) *facts.add_nics() = std::move(fact);
  facts.set_nvidia_driver(nvidia_driver());
  add_gpu_users(nvidia.report, facts);
  add_contained(asked, facts);
  const base::Status threads = base::check_thread_room(kAgentThreads);
  if (!threads.ok()) facts.set_thread_failure(threads.message());
  add_launcher(facts);
  add_listener(facts);
  return facts;
}

// Starts a job's warden as an agent would, and python3 as its rank.
void Probe::add_contained(const v1::AskFacts& asked, v1::HostFacts& facts) {
  const auto level = parse_contain_level(join_.contain());
  if (!level.ok()) return facts.set_containment_failure(level.status().message());
  auto warden = Warden::start({.job_id = join_.job_id(),
                               .agent_id = std::to_string(join_.agent_index()),
                               .session_root = join_.session_root(),
                               .contain = *level});
  if (!warden.ok()) return facts.set_containment_failure(warden.status().message());
  facts.mutable_hello()->set_containment(warden->containment().name());
  facts.mutable_hello()->set_containment_note(warden->containment().note);
  *facts.mutable_python() =
      ask_python(*warden, rank_environment(asked), milliseconds(asked.python_timeout_ms()), STDIN_FILENO);
  const base::Status closed = warden->close();
  if (!closed.ok()) facts.set_containment_failure(closed.message());
}

// `seen` is what NVIDIA's library reports.
void Probe::add_gpu_users(gpus::GpuReport seen, v1::HostFacts& facts) const {
  gpus::Question question = question_about(facts.hello());
  question.nvidia = false;
  if (question.files) {
    auto others = gpus::survey_blocking(login_, kFilesPatience, nullptr, question);
    if (others.ok()) {
      seen.others = std::move(others->others);
    } else if (facts.hello().gpu_problem().empty()) {
      facts.mutable_hello()->set_gpu_problem(base::valid_utf8(others.status().message()));
    }
  }
  for (v1::GpuUser& user : find_gpu_users(seen, facts.hello())) *facts.add_gpu_users() = std::move(user);
  for (v1::UntoldGpu& gpu : find_unreported_gpus(seen, facts.hello())) *facts.add_untold_gpus() = std::move(gpu);
}

void Probe::add_launcher(v1::HostFacts& facts) const {
  if (join_.link() == "ssh") return;
  *facts.mutable_launcher() =
      reach(launcher_addresses(join_, facts.hello()), join_.output_port(), join_.dial_timeout_ms());
}

void Probe::add_listener(v1::HostFacts& facts) {
  auto listening = base::listen_any(0, kBacklog);
  if (!listening.ok()) return;  // the port stays 0, which reports this failure
  const auto port = base::local_port(listening->get());
  if (!port.ok()) return;
  listener_ = std::move(*listening);
  facts.set_listen_port(*port);
}

v1::LogindFact Probe::logind() const {
  v1::LogindFact fact;
  const LogindSettings settings = read_logind_settings("");
  fact.set_is_running(is_systemd_running(""));
  fact.set_kill_user_processes(base::valid_utf8(settings.kill_user_processes));
  fact.set_remove_ipc(base::valid_utf8(settings.remove_ipc));
  fact.set_lingers(does_user_linger("", login_.get("USER").value_or("")));
  return fact;
}

std::vector<std::string> Probe::rank_environment(const v1::AskFacts& asked) const {
  base::Environment environment;
  for (const auto& [name, value] : login_.entries()) {
    if (!model::is_rank_variable(name)) environment.set(name, value);
  }
  for (const auto& [name, value] : proto::environment_of(asked.environment())) environment.set(name, value);
  return environment.to_strings();
}

std::string Probe::session_root() const {
  if (!join_.session_root().empty()) return join_.session_root();
  const std::string own(login_.get("MUSTER_TMPDIR").value_or(""));
  return own.empty() ? "/tmp" : own;
}

}  // namespace

base::Status serve_probe(const v1::AgentJoin& join, const base::Environment& login_environment) {
  return Probe(join, login_environment).serve();
}

}  // namespace muster::agent::probe
