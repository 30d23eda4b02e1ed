// launcherd: its parts, put together. Loop thread only.
//
//   MUSTER_ASSIGN_OR_RETURN(const auto daemon, Daemon::open(loop, clock, std::move(options)));
//   loop.run();                                     // serves; until
//   daemon->leave([&] { loop.stop(); });            // jobs that do not outlive it are stopped first; again: at once
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
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/enrol/accept_agents.h"
#include "launcherd/service/api_server.h"
#include "model/host_spec.h"

namespace muster::launcherd::inline daemon {

struct DaemonOptions {
  std::vector<model::HostSpec> hosts;  // at least one, but where agents come by themselves
  std::optional<AcceptAgents> accept_agents;
  std::string socket;                           // absolute path; empty: launcherd.sock in the first of the next
  std::vector<std::string> socket_directories;  // api_directories()
  bool has_socket = true;                       // false: by TCP only
  std::vector<TlsListener> tls;
  std::string http;             // loopback address and port of the page; empty: none
  std::string state_directory;  // absolute
  BootstrapOptions bootstrap;
  std::chrono::milliseconds idle_timeout{600'000};  // of agents without a job; 0: none
  std::chrono::milliseconds agent_lease{600'000};   // without this launcherd or a later one an agent ends
  std::string version;
  std::string build_id;
  std::string session_root;  // MUSTER_TMPDIR; empty: the hosts' own
  bool verbose = false;
  std::function<void(const std::string&)> on_line;          // launcherd's own log; any thread
  std::function<void(const std::string& id)> on_job_ended;  // its end is stored; on the loop; may be empty
};

class Daemon {
 public:
  // Blocks while it makes its files. Errors are one sentence: the state directory or the socket is another launcherd's,
  // an address cannot be listened at, the store is damaged.
  static base::Result<std::unique_ptr<Daemon>> open(base::Loop& loop, const base::Clock& clock, DaemonOptions options);
  ~Daemon();

  // "serving unix:/run/user/1000/muster/launcherd.sock with 4 hosts and 16 slots".
  std::string description() const;
  void replace_hosts(const std::vector<model::HostSpec>& hosts);
  // See ApiServer::replace_certificates.
  base::Status replace_certificates(const std::vector<TlsListener>& tls);
  void leave(base::Loop::Task done);

 private:
  struct Parts;
  explicit Daemon(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace muster::launcherd::daemon
