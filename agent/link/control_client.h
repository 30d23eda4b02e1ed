// The agent's end of the control channel: one gRPC stream to the launcher, opened again after a cut, with nothing lost
// or handled twice.
//
// What waits is bounded. From a launcher that does not read, or that says more than the loop handles, nothing more is
// read until it is: its pings get no answer, and the lease decides. What it has asked for is kept. Notices are left out
// while too much is not acknowledged (outgoing_messages.h), and unnumbered messages while too much is not written.
//
// Owned by the agent; created, used and destroyed on the loop thread. Callbacks run on the loop thread.
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
  std::string endpoint;  // "1.2.3.4:5" or "[v6]:5"; empty with `fd`
  base::UniqueFd fd;     // a connected socket (the end of a mux stream): no TLS, no reconnect
  std::string ca_pem;
  std::string certificate_pem;
  std::string key_pem;
  std::string token;
};

struct StreamEnd {
  std::string reason;
  // The launcher's side ended it, or its machine did so for it. False: nothing was heard from there any more.
  bool is_by_launcher = false;
};

class ControlClient {
 public:
  // Every message but acknowledgements, once and in order; also Welcome and Ping.
  std::function<void(const v1::LauncherMessage&)> on_message;
  // The stream ended: reconnecting, unless it was over a mux.
  std::function<void(const StreamEnd& end)> on_cut;
  // Completes each Hello with what holds at its moment.
  std::function<void(v1::Hello&)> on_hello;
  // Another launcher than before has answered, which knows nothing: what was not acknowledged is forgotten, numbers
  // begin anew. Comes before its Welcome; what is sent from here is the first that it hears.
  std::function<void()> on_new_launcher;

  // `hello` is sent first on every stream, its resume_from and launcher_instance filled in.
  static std::unique_ptr<ControlClient> start(base::Loop& loop, ControlClientOptions options, v1::Hello hello);
  ~ControlClient();

  // For the next connection; the stream that is there stays. Does nothing over a mux.
  void renew(const v1::Renewal& renewal);

  void send(v1::AgentMessage message);             // numbered
  void send_unnumbered(v1::AgentMessage message);  // dropped while cut, or while the launcher does not read

 private:
  ControlClient();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::agent::link
