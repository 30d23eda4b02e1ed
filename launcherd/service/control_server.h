// The launcher's end of the control channels: one gRPC server, one bidirectional stream per agent, each resumed after a
// cut with nothing lost or handled twice. Connections come through a FrontDoor, which bounds those of strangers.
//
// Owned by the job layer; created, used and destroyed on the loop thread, which must still be alive (not necessarily
// running) when it is destroyed. gRPC's threads only translate and post. Callbacks run on the loop thread.
// A stream is accepted only with the token of an agent that was added and a certificate of this launcher's CA that
// names the role and this job; on a connection that came through the agent's own ssh channel (add_connection), with the
// token alone.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/tls.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline service {

// One that another launcher has numbered.
struct KnownAgent {
  std::string token;
  int hello_index = 0;
};

struct ControlServerOptions {
  std::string job_id;                  // or the name of launcherd's state: what agents' certificates and Hellos say
  std::string launcher_instance = {};  // of a launcherd: see Welcome in agent.proto
  std::string ca_pem;
  std::string certificate_pem;  // the server's: SAN DNS:launcherd
  std::string key_pem;
  int port = 0;                         // 0: any
  std::vector<KnownAgent> agents = {};  // that may come from the first moment: numbers 0, 1, 2, …
  bool wants_load = false;              // agents tell how busy their hosts are
  // A want of descriptors, once a minute; on the loop. Empty: not reported.
  std::function<void(const std::string& line)> on_line = {};
  // What gRPC logs as an error, once a minute; on threads of gRPC. Empty: dropped.
  std::function<void(const std::string& line)> on_grpc_error = {};
};

class ControlServer {
 public:
  // First message of an agent, or the first after a cut (`resumed`).
  std::function<void(int agent, const v1::Hello&, bool resumed)> on_hello;
  // Every message but Hello, once and in order; also Pong.
  std::function<void(int agent, const v1::AgentMessage&)> on_message;
  // The stream ended; the agent may come back.
  std::function<void(int agent)> on_cut;
  // Instead of a Hello: each of its streams ends at a message that one of the two ends cannot read. It was told to end
  // what it runs; to be forgotten.
  std::function<void(int agent)> on_unreadable;

  static base::Result<std::unique_ptr<ControlServer>> start(base::Loop& loop, ControlServerOptions options);
  ~ControlServer();

  int port() const;
  // An agent that may come, and its number: the next one.
  int add_agent(const std::string& token);
  // A connected socket (the end of a mux stream) on which the agent speaks gRPC without TLS.
  base::Status add_connection(base::UniqueFd fd);
  // Numbered: kept until acknowledged, sent again after a cut.
  void send(int agent, v1::LauncherMessage message);
  // Not numbered, dropped while the agent has no stream (Ping).
  void send_unnumbered(int agent, v1::LauncherMessage message);
  // For handshakes from now on; streams that are there stay. `ca_pem` may hold several authorities.
  void set_keys(const std::string& ca_pem, const base::TlsIdentity& own);
  // Ends the agent's stream; it will come back.
  void cut(int agent);
  // Forgets the agent: later streams of it are refused, what is sent to it is dropped, and once its stream has ended
  // nothing is kept of it. Its number does not come again.
  void forget(int agent);
  // Of which something is kept.
  std::size_t agents() const;

 private:
  ControlServer();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::service
