// This file collects launcherd's options (daemon_options), runs the daemon (serve), and reads files again on SIGHUP.
// Read from the end: run_launcherd(), serve(), daemon_options().
#include "cli/daemon/run_launcherd.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <climits>
#include <memory>
#include <thread>

#include "base/build_id.h"
#include "base/file.h"
#include "base/loop.h"
#include "cli/daemon/launcherd_options.h"
#include "cli/daemon/service_manager.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/program_main.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/standard_streams.h"
#include "cli/hosts/surroundings.h"
#include "cli/options/exit_codes.h"
#include "cli/verbs/complete.h"
#include "cli/view/bootstrap_options.h"
#include "cli/view/launcher_process.h"
#include "launcherd/daemon/daemon.h"
#include "launcherd/output/terminal.h"
#include "launcherd/service/api_socket.h"
#include "launcherd/service/tls_files.h"
#include "launcherd/store/state_directory.h"

namespace muster::cli::inline daemon {
namespace {

// Threads that launcherd needs: those of gRPC and of the store, and a reserve.
constexpr int kLauncherdThreads = 24;
constexpr std::size_t kLongestPem = std::size_t{1} << 20;

// Returns the hosts of the command line, or those of the hostfile as it is now, or this host. With --accept-agents the
// list may be empty, because hosts connect by themselves.
base::Result<std::vector<model::HostSpec>> hosts_of(const ParsedLauncherd& parsed, const base::Environment& environment,
                                                    const std::string& directory) {
  JobRequest request = parsed.options.request;
  MUSTER_ASSIGN_OR_RETURN(const HostSource source, find_hosts(request, environment, directory));
  std::vector<model::HostSpec> hosts = std::move(request.job.placement.hosts);
  // Leave hosts without slots if launcherd must count their GPUs. As in hvdrun, these are hosts that the user, or a
  // scheduler that counts no tasks, lists once.
  set_default_slots(parsed.options.reach, source, hosts);
  if (hosts.empty() && !parsed.accept_agents) {
    const int processors = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
    hosts.push_back({.name = "localhost", .slots = processors});
  }
  return hosts;
}

base::Result<std::string> state_directory(const ParsedLauncherd& parsed, const base::Environment& environment,
                                          const std::string& directory) {
  if (!parsed.state.empty()) return absolute_path(parsed.state, directory);
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return base::errno_error(errno, "ask for the host's name");
  return launcherd::default_state_directory(environment, name);
}

base::Result<std::vector<launcherd::TlsListener>> tls_listeners(const ParsedLauncherd& parsed,
                                                                const std::string& directory) {
  std::vector<launcherd::TlsListener> listeners;
  if (parsed.addresses.empty()) return listeners;
  const auto read = [&](const std::string& path) {
    return base::read_file(absolute_path(path, directory), kLongestPem);
  };
  MUSTER_ASSIGN_OR_RETURN(const std::string certificate, read(parsed.tls_certificate));
  auto key_text = launcherd::read_private_key(absolute_path(parsed.tls_key, directory));
  if (!key_text.ok()) return key_text.status().with_context("--tls-key");
  const std::string key = std::move(*key_text);
  MUSTER_ASSIGN_OR_RETURN(const std::string client_ca, read(parsed.client_ca));
  std::string client_crl;
  if (!parsed.client_crl.empty()) {
    MUSTER_ASSIGN_OR_RETURN(client_crl, read(parsed.client_crl));
    if (client_crl.empty()) {
      return base::invalid_argument("--client-crl: {} is empty", parsed.client_crl);
    }
  }
  for (const std::string& address : parsed.addresses) {
    listeners.push_back(
        {.address = address, .certificate = certificate, .key = key, .client_ca = client_ca, .client_crl = client_crl});
  }
  return listeners;
}

base::Result<launcherd::DaemonOptions> daemon_options(const ParsedLauncherd& parsed,
                                                      const base::Environment& environment,
                                                      const std::string& directory, launcherd::NoticeWriter& notices) {
  launcherd::DaemonOptions options;
  MUSTER_ASSIGN_OR_RETURN(options.hosts, hosts_of(parsed, environment, directory));
  MUSTER_ASSIGN_OR_RETURN(options.state_directory, state_directory(parsed, environment, directory));
  MUSTER_ASSIGN_OR_RETURN(options.tls, tls_listeners(parsed, directory));
  MUSTER_ASSIGN_OR_RETURN(std::string agent_path, find_agent(environment));
  if (!parsed.sockets.empty()) options.socket = parsed.sockets.front();
  options.has_socket = !parsed.sockets.empty() || parsed.addresses.empty();
  MUSTER_ASSIGN_OR_RETURN(auto inherited, inherited_socket(environment, ::getpid()));
  if (inherited) options.inherited_socket = std::move(*inherited);
  options.http = parsed.http;
  options.http_write = parsed.http_write;
  options.accept_agents = parsed.accept_agents;
  if (!parsed.join_file.empty()) options.accept_agents->join_file = absolute_path(parsed.join_file, directory);
  options.socket_directories = launcherd::api_directories(environment);
  options.verbose = parsed.options.output.verbose;
  options.bootstrap = bootstrap_options(parsed.options.reach, std::move(agent_path), notices, options.verbose);
  // Keep the default time for starting agents, because --start-timeout is an option of jobs.
  options.bootstrap.start_timeout = launcherd::BootstrapOptions().start_timeout;
  MUSTER_RETURN_IF_ERROR(settle_bootstrap(options.bootstrap, environment).status());
  options.version = MUSTER_VERSION;
  options.build_id = base::build_id();
  options.session_root = environment.get("MUSTER_TMPDIR").value_or("");
  options.on_line = [&notices](const std::string& line) { notices.line(line); };
  return options;
}

void read_hosts_again(const ParsedLauncherd& parsed, const base::Environment& environment, const std::string& directory,
                      launcherd::Daemon& daemon, launcherd::NoticeWriter& notices) {
  const auto hosts = hosts_of(parsed, environment, directory);
  if (!hosts.ok()) {
    notices.line("the hosts were not changed: " + hosts.status().message());
    return;
  }
  daemon.replace_hosts(*hosts);
  notices.line(daemon.description());
}

void read_certificates_again(const ParsedLauncherd& parsed, const std::string& directory, launcherd::Daemon& daemon,
                             launcherd::NoticeWriter& notices) {
  const auto listeners = tls_listeners(parsed, directory);
  base::Status status = listeners.ok() ? daemon.replace_certificates(*listeners) : listeners.status();
  notices.line(status.ok() ? "certificates were read again; new connections must use them"
                           : "the certificates were not changed: " + status.message());
}

// Handles SIGHUP.
void read_files_again(const ParsedLauncherd& parsed, const base::Environment& environment, const std::string& directory,
                      launcherd::Daemon& daemon, launcherd::NoticeWriter& notices) {
  const bool has_hosts = !parsed.options.request.hostfile.empty();
  const bool has_certificates = !parsed.addresses.empty();
  if (has_certificates) read_certificates_again(parsed, directory, daemon, notices);
  if (has_hosts) read_hosts_again(parsed, environment, directory, daemon, notices);
  if (has_hosts || has_certificates) return;
  notices.line(
      "SIGHUP changed nothing: it reads --hostfile and the certificates of --listen again, and launcherd has neither");
}

int serve(const ParsedLauncherd& parsed, const base::Environment& environment) {
  const std::string directory = logical_working_directory(environment);
  base::Loop loop;  // declared first, because it must outlive all that wait on it or post to it
  auto signals = prepare_launcher({SIGINT, SIGTERM, SIGHUP}, kLauncherdThreads);
  if (!signals.ok()) return fail_as("launcherd", kMusterFailed, signals.status().message());
  const base::SystemClock clock;
  launcherd::Terminal terminal(STDERR_FILENO, "stderr");
  launcherd::NoticeWriter notices(&terminal, "launcherd: ");
  auto options = daemon_options(parsed, environment, directory, notices);
  if (!options.ok()) return fail_as("launcherd", kUsageError, options.status().message());
  {
    auto daemon = launcherd::Daemon::open(loop, clock, std::move(*options));
    if (!daemon.ok()) return fail_as("launcherd", kMusterFailed, daemon.status().message());
    const ServiceManager manager(environment);
    const auto tell = [&notices](const base::Status& told) {
      if (!told.ok()) notices.line(told.message());
    };
    signals->watch(loop, [&](int signo) {
      if (signo == SIGHUP) {
        tell(manager.reloading(std::chrono::floor<std::chrono::microseconds>(clock.now().time_since_epoch())));
        read_files_again(parsed, environment, directory, **daemon, notices);
        tell(manager.ready((*daemon)->description()));
      } else {
        tell(manager.stopping());
        (*daemon)->leave([&loop] { loop.stop(); });
      }
    });
    notices.line((*daemon)->description());
    tell(manager.ready((*daemon)->description()));
    loop.run();
  }
  if (!notices.flush_blocking(clock.now() + kFlushTimeout)) terminal.cancel();
  return 0;
}

}  // namespace

int run_launcherd(const std::vector<std::string>& arguments) {
  const CompletedProgram completed{.name = "launcherd", .verbs = {{"", &launcherd_flags()}}};
  if (const auto answered = answer_shell(completed, arguments)) return *answered;
  return run_program("launcherd", [&](const base::Environment& environment) {
    const ParsedLauncherd parsed =
        parse_launcherd(arguments, environment, {.build_id = base::build_id()}, ::geteuid() == 0);
    return parsed.exit_code ? print_reply("launcherd", *parsed.exit_code, parsed.text) : serve(parsed, environment);
  });
}

}  // namespace muster::cli::daemon
