// launcherd: creates its parts and connects them.
//
// Owner: launcherd's main function.
// Thread: loop thread only.
//
//   MUSTER_ASSIGN_OR_RETURN(const auto daemon, Daemon::open(loop, clock, std::move(options)));
//   loop.run();                                     // serves until leave()
//   daemon->leave([&] { loop.stop(); });            // stops jobs that cannot outlive it; a second call kills them
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "launcherd/agents/relays_among.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/enrol/accept_agents.h"
#include "launcherd/queue/fair_use.h"
#include "launcherd/service/api_server.h"
#include "launcherd/trace/otlp_options.h"
#include "launcherd/web/metrics_server.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline daemon {

struct DaemonOptions {
  std::vector<model::HostSpec> hosts;  // at least one, unless agents may connect by themselves
  std::optional<AcceptAgents> accept_agents;
  // Absolute path. Empty means launcherd.sock in the first of socket_directories.
  std::string socket;
  std::vector<std::string> socket_directories;  // api_directories()
  FairUse fair_use{};
  int fanout = kDefaultFanout;      // with more agents, some are relays for others; 0: never
  bool has_socket = true;           // false if launcherd serves TCP only
  base::UniqueFd inherited_socket;  // a listening socket (ApiSocket::adopt); used instead of `socket` if valid
  std::vector<TlsListener> tls;
  std::string http;             // loopback address and port of the web page; empty means no page
  MetricsPort metrics;          // for other users and machines
  bool http_write = false;      // the page serves actions to those who have the token in the state directory
  std::string state_directory;  // absolute
  BootstrapOptions bootstrap;
  std::chrono::milliseconds idle_timeout{600'000};  // an agent without a job ends after this; 0 means never
  std::chrono::milliseconds agent_lease{600'000};   // an agent ends if it has had no launcherd for this long
  std::optional<OtlpOptions> otlp;                  // where traces go; nullopt if none are sent
  std::string version;
  std::string build_id;
  std::string session_root;  // MUSTER_TMPDIR; empty means each host's own default
  bool verbose = false;
  std::function<void(const std::string&)> on_line;  // launcherd's own log; any thread
  // Called on the loop when the job's end is stored. May be empty.
  std::function<void(const std::string& id)> on_job_ended;
};

class Daemon {
 public:
  // Opens everything, and blocks while it creates its files. The error is one sentence. Examples: another launcherd
  // uses the state directory or the socket, an address cannot be used for listening, the store is damaged.
  static base::Result<std::unique_ptr<Daemon>> open(base::Loop& loop, const base::Clock& clock, DaemonOptions options);
  ~Daemon();

  // Returns text such as "serving unix:/run/user/1000/muster/launcherd.sock with 4 hosts and 16 slots".
  std::string description() const;
  void replace_hosts(const std::vector<model::HostSpec>& hosts);
  // See ApiServer::replace_certificates and MetricsServer::replace_certificate.
  base::Status replace_certificates(const std::vector<TlsListener>& tls, const MetricsPort& metrics);
  void leave(base::Loop::Task done);

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::launcherd::daemon
