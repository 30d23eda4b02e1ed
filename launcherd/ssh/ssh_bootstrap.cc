// SshBootstrap: plans the log-in to a host, tries libssh or the `ssh` program, and repeats while sshd is busy.
// Read start_host first, then start_once, then make_plan and why_ssh_is_needed.
#include "launcherd/ssh/ssh_bootstrap.h"

#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <random>

#include "base/file.h"
#include "base/ids.h"
#include "launcherd/bootstrap/connect.h"
#include "launcherd/ssh/known_hosts.h"

namespace muster::launcherd::inline ssh {
namespace {

constexpr auto kFirstPause = std::chrono::milliseconds(100);
constexpr auto kLongestPause = std::chrono::milliseconds(2000);

bool exists(const std::string& path) {
  return ::access(path.c_str(), F_OK) == 0;
}

SshConfigFiles real_files() {
  return {.read = [](const std::string& path) -> std::optional<std::string> {
            auto content = base::read_file(path);
            return content.ok() ? std::optional<std::string>(*std::move(content)) : std::nullopt;
          },
          .glob =
              [](const std::string& pattern) {
                std::vector<std::string> files;
                glob_t found{};
                if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
                  files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
                }
                ::globfree(&found);
                return files;
              }};
}

std::chrono::milliseconds jittered(std::chrono::milliseconds pause) {
  thread_local std::minstd_rand random(std::random_device{}());
  std::uniform_int_distribution<std::chrono::milliseconds::rep> around(pause.count() / 2, pause.count() * 3 / 2);
  return std::chrono::milliseconds(around(random));
}

std::vector<std::string> default_identities(const std::string& home) {
  std::vector<std::string> files;
  for (const char* name : {"id_ed25519", "id_ecdsa", "id_rsa"}) {
    const std::string path = home + "/.ssh/" + name;
    if (exists(path)) files.push_back(path);
  }
  return files;
}

std::string known_hosts_name(const std::string& host, int port) {
  return port == 0 || port == 22 ? host : fmt::format("[{}]:{}", host, port);
}

}  // namespace

SshSurroundings SshSurroundings::of_this_user() {
  SshSurroundings result;
  passwd entry{};
  passwd* found = nullptr;
  std::vector<char> buffer(16 * 1024);
  if (::getpwuid_r(::getuid(), &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) {
    result.home = found->pw_dir;
    result.user = found->pw_name;
  } else if (const char* home = ::getenv("HOME")) {  // a uid may have no entry, as in containers
    result.home = home;
    if (const char* user = ::getenv("USER")) result.user = user;
  }
  result.user_config = result.home + "/.ssh/config";
  result.system_config = "/etc/ssh/ssh_config";
  result.known_hosts = result.home + "/.ssh/known_hosts";
  result.global_known_hosts = "/etc/ssh/ssh_known_hosts";
  return result;
}

std::string why_ssh_is_needed(const SshHostConfig& config, const SshSurroundings& surroundings,
                              const std::vector<std::string>& identity_files) {
  if (!config.needs_ssh.empty()) return config.needs_ssh;
  std::vector<std::string> known_hosts = config.user_known_hosts;
  if (known_hosts.empty()) known_hosts = {surroundings.known_hosts, surroundings.known_hosts + "2"};
  std::vector<std::string> global = config.global_known_hosts;
  if (global.empty()) global = {surroundings.global_known_hosts, surroundings.global_known_hosts + "2"};
  for (const auto& list : {known_hosts, global}) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (i > 0 && exists(list[i])) return list[i] + " exists";  // libssh reads only one file of each kind
      const auto content = base::read_file(list[i]);
      if (content.ok() && has_marker_lines(*content)) return list[i] + " has @-marked lines";
    }
  }
  for (const std::string& path : identity_files) {
    if (exists(path + "-cert.pub")) return path + "-cert.pub exists";
  }
  if (!identity_files.empty()) return {};
  for (const char* name : {"id_ed25519_sk", "id_ecdsa_sk"}) {
    const std::string path = surroundings.home + "/.ssh/" + name;
    if (exists(path)) return path + " is a hardware key";
  }
  return {};
}

SshBootstrap::SshBootstrap(BootstrapOptions options, AgentImage image, SshSurroundings surroundings)
    : options_(std::move(options)),
      surroundings_(std::move(surroundings)),
      sending_{.image = std::move(image)},
      workers_(std::max(1, options_.max_parallel)) {}

SshBootstrap::~SshBootstrap() {
  cancel();
}

SshBootstrap::Plan SshBootstrap::make_plan(const BootstrapTarget& target) const {
  const SshHostConfig config = read_ssh_config({.host = target.name,
                                                .user = target.user,
                                                .local_user = surroundings_.user,
                                                .home = surroundings_.home,
                                                .user_file = surroundings_.user_config,
                                                .system_file = surroundings_.system_config},
                                               real_files());
  Plan plan;
  plan.display = target.user.empty() ? target.name : target.user + "@" + target.name;
  plan.connect_to = config.host_name;
  const int given_port = target.port != 0 ? target.port : options_.default_port;
  SshLogin& login = plan.login;
  login.host = config.host_name;
  login.port = given_port != 0 ? given_port : config.port != 0 ? config.port : 22;
  login.user = !target.user.empty() ? target.user : !config.user.empty() ? config.user : surroundings_.user;
  login.identity_files = config.identity_files;
  if (!options_.identity_file.empty()) {
    login.identity_files.insert(login.identity_files.begin(), options_.identity_file);
  }
  if (login.identity_files.empty()) login.identity_files = default_identities(surroundings_.home);
  login.use_agent = !config.identities_only;
  login.known_hosts = config.user_known_hosts.empty() ? surroundings_.known_hosts : config.user_known_hosts.front();
  login.global_known_hosts =
      config.global_known_hosts.empty() ? surroundings_.global_known_hosts : config.global_known_hosts.front();
  for (std::string* path : {&login.known_hosts, &login.global_known_hosts}) {
    if (*path == "none") *path = "/dev/null";
  }
  login.accept_new_keys = config.strict != StrictHostKeys::kYes;
  login.hash_new_keys = config.hash_known_hosts;

  plan.ssh.program = surroundings_.ssh_program;
  plan.ssh.extra_args = surroundings_.ssh_args;
  plan.ssh.host = target.name;
  plan.ssh.user = target.user;
  plan.ssh.port = given_port;
  plan.ssh.identity_file = options_.identity_file;
  plan.ssh.accept_new_keys = !config.is_strict_conditional &&
                             (config.strict == StrictHostKeys::kUnset || config.strict == StrictHostKeys::kAsk);
  switch (options_.backend) {
    case SshBackend::kAuto:
      plan.needs_ssh = why_ssh_is_needed(config, surroundings_, login.identity_files);
      break;
    case SshBackend::kLibssh:
      plan.may_ask_ssh = false;
      break;
    case SshBackend::kSsh:
      plan.needs_ssh = "--ssh-backend ssh";
      break;
  }
  return plan;
}

Failure SshBootstrap::start_by_libssh(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome,
                                      bool& may_ask_ssh) {
  base::UniqueFd socket;
  if (Failure failure = connect_host(plan.connect_to, plan.login.port, waiter, socket); !failure.ok()) return failure;
  const auto peer = base::peer_address(socket.get());
  const std::string address = fmt::format("{} port {}", peer.ok() ? peer->str() : plan.connect_to, plan.login.port);
  const auto session = std::make_shared<LibsshSession>();
  SshLogin login = plan.login;
  login.on_new_host_key = task.on_stderr;  // reported even without --verbose
  if (Failure failure = session->log_in(login, std::move(socket), waiter); !failure.ok()) {
    failure.address = address;
    may_ask_ssh = (failure.kind == FailureKind::kAuthRefused && session->has_unusable_keys()) ||
                  failure.kind == FailureKind::kSshFailed;
    return failure;
  }
  LibsshLink link(session, pump_, address);
  outcome.agent.launcher_addresses = link.launcher_addresses();
  outcome.agent.host_address = link.host_address();
  outcome.agent.backend = link.backend();
  return start_on_host(link, task, sending_, waiter, outcome.result);
}

Failure SshBootstrap::start_by_ssh(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome) {
  SshProgramLink link(plan.ssh, pump_);
  outcome.agent = {};
  outcome.agent.backend = link.backend();
  return start_on_host(link, task, sending_, waiter, outcome.result);
}

Failure SshBootstrap::start_once(const Plan& plan, const HostTask& task, const Waiter& waiter, Outcome& outcome) {
  if (!plan.needs_ssh.empty()) {
    if (options_.backend == SshBackend::kAuto && task.on_note) {
      task.on_note(fmt::format("using the ssh program: {}", plan.needs_ssh));
    }
    Failure failure = start_by_ssh(plan, task, waiter, outcome);
    if (failure.kind == FailureKind::kNoSsh) failure.detail = fmt::format("{}; {}", plan.needs_ssh, failure.detail);
    return failure;
  }
  bool may_ask_ssh = false;
  Failure failure = start_by_libssh(plan, task, waiter, outcome, may_ask_ssh);
  if (failure.ok() || !may_ask_ssh || !plan.may_ask_ssh) return failure;
  if (task.on_note) task.on_note(fmt::format("trying the ssh program: {}", failure.detail));
  const Failure second = start_by_ssh(plan, task, waiter, outcome);
  // If both refusals are of the same kind, return ours, because it explains more than ssh's.
  const bool is_same = second.kind == failure.kind || second.kind == FailureKind::kNoSsh;
  return is_same ? failure : second;
}

Failure SshBootstrap::start_host(const BootstrapTarget& target, HostTask& task, Outcome& outcome) {
  const Waiter waiter{cancel_.fd(), std::chrono::steady_clock::now() + options_.start_timeout};
  const Plan plan = make_plan(target);
  Failure failure;
  Failure busy;  // the last failure while sshd was too busy; it says more than "timed out"
  auto pause = kFirstPause;
  for (;;) {
    failure = wait_failure(waiter.check());
    if (failure.ok()) failure = start_once(plan, task, waiter, outcome);
    if (failure.kind == FailureKind::kTimeout && !busy.ok()) failure = busy;
    if (!failure.is_before_banner) break;
    busy = failure;
    if (task.on_note) task.on_note(fmt::format("sshd is busy ({}), trying again", failure.detail));
    const Failure paused = wait_failure(waiter.pause(jittered(pause)));
    if (paused.kind == FailureKind::kCancelled) failure = paused;
    if (!paused.ok()) break;
    pause = std::min(pause * 2, kLongestPause);
  }
  failure.host = plan.display;
  failure.name = known_hosts_name(plan.login.host, plan.login.port);
  failure.user = plan.login.user;
  if (failure.address.empty()) failure.address = fmt::format("{} port {}", plan.connect_to, plan.login.port);
  return failure;
}

base::Result<HostTask> SshBootstrap::make_task(const BootstrapTarget& target, std::vector<std::string> args) const {
  MUSTER_RETURN_IF_ERROR(check_target_names(target.name, target.user));
  MUSTER_RETURN_IF_ERROR(check_agent_args(args));
  HostTask task;
  MUSTER_ASSIGN_OR_RETURN(
      task.paths, remote_paths(options_.agent_dir, options_.agent_id, sending_.image.machine(), base::random_hex(6)));
  if (is_pbs_job(options_.pbs_job)) task.paths.pbs_job = options_.pbs_job;
  task.agent_id = options_.agent_id;
  task.args = std::move(args);
  const std::string name = target.name;
  if (options_.on_note) task.on_note = [this, name](const std::string& line) { options_.on_note(name, line); };
  if (options_.on_stderr) task.on_stderr = [this, name](const std::string& line) { options_.on_stderr(name, line); };
  return task;
}

base::Status SshBootstrap::failed(const BootstrapTarget& target, const Failure& failure) const {
  if (options_.on_failure) options_.on_failure(target, failure.kind);
  return to_status(failure);
}

void SshBootstrap::start(const BootstrapTarget& target, JoinSource join,
                         std::function<void(base::Result<StartedAgent>)> done) {
  const base::Status posted = workers_.post([this, target, join = std::move(join), done]() mutable {
    auto task = make_task(target, {"--stdio"});
    if (!task.ok()) return done(task.status());
    task->join = std::move(join);
    Outcome outcome;
    const Failure failure = start_host(target, *task, outcome);
    if (!failure.ok()) return done(failed(target, failure));
    outcome.agent.stream = std::move(outcome.result.stream);
    outcome.agent.agent_sent = outcome.result.agent_sent;
    done(std::move(outcome.agent));
  });
  if (!posted.ok()) done(posted);
}

void SshBootstrap::run(const BootstrapTarget& target, std::vector<std::string> args,
                       std::function<void(base::Result<CommandResult>)> done) {
  const base::Status posted = workers_.post([this, target, args = std::move(args), done]() mutable {
    auto task = make_task(target, std::move(args));
    if (!task.ok()) return done(task.status());
    task->is_run = true;
    Outcome outcome;
    const Failure failure = start_host(target, *task, outcome);
    if (!failure.ok()) return done(failed(target, failure));
    ProgramResult& result = outcome.result.run;
    done(CommandResult{
        .exit_status = result.exit_status, .output = std::move(result.output), .errors = std::move(result.errors)});
  });
  if (!posted.ok()) done(posted);
}

}  // namespace muster::launcherd::ssh
