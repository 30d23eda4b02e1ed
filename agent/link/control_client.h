// The agent's end of the control channel: one gRPC stream to the launcher. After a cut it opens a new stream. No
// message is lost or handled twice.
//
// Limits: all queues are bounded. If the launcher does not read, or sends more than the loop handles, the client
// stops reading until that changes. While it does not read, the launcher's pings get no answer. The lease limits how
// long this may last.
// (outgoing_messages.h), and unnumbered messages while too much is not written.
//
// Owner: the agent.
// Thread: create, use and destroy it on the loop thread. Callbacks run there, too.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::agent::inline link {

struct ControlClientOptions {
  std::string endpoint;  // "1.2.3.4:5" or "[v6]:5"; empty if `fd` is set
  // A connected socket, the end of a mux stream. With it there is no TLS and no reconnect. Invalid if the endpoint is
  // set.
  base::UniqueFd fd;
  std::string ca_pem;
  std::string certificate_pem;
  std::string key_pem;
  std::string token;
};

struct StreamEnd {
  std::string reason;
  // True if the launcher or its machine ended the stream. False if both became silent.
  bool is_by_launcher = false;
};

class ControlClient {
 public:
  // Called once with every message but acknowledgements, in order. Welcome and Ping are included.
  std::function<void(const v1::LauncherMessage&)> on_message;
  // The stream has ended. The client reconnects, unless the stream was over a mux.
  std::function<void(const StreamEnd& end)> on_cut;
  // Called before each Hello is sent. The handler adds the facts that are true at that moment.
  std::function<void(v1::Hello&)> on_hello;
  // Another launcher than before has answered, and knows nothing of this agent. The client forgets all messages that
  // were not acknowledged, and numbers begin again. The call comes before on_message gets the new launcher's Welcome.
  // Messages that are sent from within the call are the first that the new launcher gets.
  std::function<void()> on_new_launcher;

  // `hello` is sent first on every stream, with resume_from and launcher_instance filled in.
  static std::unique_ptr<ControlClient> start(base::Loop& loop, ControlClientOptions options, v1::Hello hello);
  ~ControlClient();

  // Sets certificates for the next connection; the present stream stays. Does nothing over a mux.
  void renew(const v1::Renewal& renewal);

  void send(v1::AgentMessage message);             // numbered
  void send_unnumbered(v1::AgentMessage message);  // dropped while cut, or while the launcher does not read

 private:
  ControlClient();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent::link
