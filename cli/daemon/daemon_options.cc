// Reads the files that launcherd's options name, and converts the options for the daemon.
#include "cli/daemon/daemon_options.h"

#include <unistd.h>

#include <algorithm>
#include <climits>
#include <thread>
#include <utility>

#include "base/build_id.h"
#include "base/file.h"
#include "cli/daemon/service_manager.h"
#include "cli/hosts/job_hosts.h"
#include "cli/hosts/site_choice.h"
#include "cli/hosts/surroundings.h"
#include "cli/view/bootstrap_options.h"
#include "launcherd/service/api_socket.h"
#include "launcherd/service/tls_files.h"
#include "launcherd/store/state_directory.h"

namespace muster::cli::inline daemon {
namespace {

constexpr std::size_t kLongestPem = std::size_t{1} << 20;

}  // namespace

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

namespace {

base::Result<std::string> state_directory(const ParsedLauncherd& parsed, const base::Environment& environment,
                                          const std::string& directory) {
  if (!parsed.state.empty()) return absolute_path(parsed.state, directory);
  char name[HOST_NAME_MAX + 1] = {};
  if (::gethostname(name, sizeof name - 1) != 0) return base::errno_error(errno, "ask for the host's name");
  return launcherd::default_state_directory(environment, name);
}

}  // namespace

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

base::Result<launcherd::MetricsPort> metrics_port(const ParsedLauncherd& parsed, const std::string& directory) {
  launcherd::MetricsPort port{.address = parsed.metrics, .certificate = "", .key = ""};
  if (parsed.metrics.empty() || parsed.tls_key.empty()) return port;
  MUSTER_ASSIGN_OR_RETURN(port.certificate,
                          base::read_file(absolute_path(parsed.tls_certificate, directory), kLongestPem));
  auto key = launcherd::read_private_key(absolute_path(parsed.tls_key, directory));
  if (!key.ok()) return key.status().with_context("--tls-key");
  port.key = *std::move(key);
  return port;
}

base::Result<launcherd::DaemonOptions> daemon_options(const ParsedLauncherd& parsed,
                                                      const base::Environment& environment,
                                                      const std::string& directory, launcherd::NoticeWriter& notices) {
  launcherd::DaemonOptions options;
  MUSTER_ASSIGN_OR_RETURN(options.hosts, hosts_of(parsed, environment, directory));
  MUSTER_ASSIGN_OR_RETURN(options.state_directory, state_directory(parsed, environment, directory));
  MUSTER_ASSIGN_OR_RETURN(options.tls, tls_listeners(parsed, directory));
  MUSTER_ASSIGN_OR_RETURN(options.metrics, metrics_port(parsed, directory));
  MUSTER_ASSIGN_OR_RETURN(std::string agent_path, find_agent(environment));
  if (!parsed.sockets.empty()) options.socket = parsed.sockets.front();
  options.has_socket = !parsed.sockets.empty() || parsed.addresses.empty();
  MUSTER_ASSIGN_OR_RETURN(auto inherited, inherited_socket(environment, ::getpid()));
  if (inherited) options.inherited_socket = std::move(*inherited);
  options.fair_use = parsed.fair_use;
  options.http = parsed.http;
  options.http_write = parsed.http_write;
  options.accept_agents = parsed.accept_agents;
  if (!parsed.join_file.empty()) options.accept_agents->join_file = absolute_path(parsed.join_file, directory);
  options.socket_directories = launcherd::api_directories(environment);
  options.verbose = parsed.options.output.verbose;
  options.fanout = parsed.options.reach.fanout;
  options.bootstrap = bootstrap_options(parsed.options.reach, std::move(agent_path), notices, options.verbose);
  // Keep the default time for starting agents, because --start-timeout is an option of jobs.
  options.bootstrap.start_timeout = launcherd::BootstrapOptions().start_timeout;
  MUSTER_RETURN_IF_ERROR(settle_bootstrap(options.bootstrap, environment).status());
  options.version = MUSTER_VERSION;
  options.build_id = base::build_id();
  options.session_root = environment.get("MUSTER_TMPDIR").value_or("");
  options.on_line = [&notices](const std::string& line) { notices.line(line); };
  launcherd::OtlpSettings traces = launcherd::read_otlp(environment, "launcherd");
  for (const std::string& warning : traces.warnings) notices.line(warning);
  options.otlp = std::move(traces.options);
  return options;
}

}  // namespace muster::cli::daemon
