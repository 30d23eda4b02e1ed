// ControlServer is the launcher's end of the control channels: one stream for each agent, directly or through a relay.
// After a cut it resumes the stream, so that no message is lost or handled twice.
//
// Owner: the job layer.
// Thread: created, used and destroyed on the loop thread. The loop must still exist (not necessarily run) when the
// server is destroyed. A thread of its own carries the bytes (ControlStreams). Callbacks run on the loop thread.
//
// Security: the server accepts a stream only from an agent that was added: its TLS key is derived from its token
// (proto/control_key.h), also on a connection through the agent's own ssh channel.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/loop.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline service {

// An agent that keeps its number from an earlier launcher.
struct KnownAgent {
  std::string token;
  int hello_index = 0;
};

struct ControlServerOptions {
  // The job's id, or the name of launcherd's state. Agents' keys and Hellos contain it.
  std::string job_id;
  std::string launcher_instance = {};   // only for launcherd; see Welcome in agent.proto
  int port = 0;                         // 0 means any free port
  std::vector<KnownAgent> agents = {};  // agents that may connect from the start; they get the numbers 0, 1, 2, …
  bool wants_load = false;              // true if agents must report the load of their hosts
  // Receives a line, at most once a minute, if descriptors run out. Runs on the loop. May be empty.
  std::function<void(const std::string& line)> on_line = {};
};

class ControlServer {
 public:
  // An agent sent its first message, or its first one after a cut (`resumed`).
  std::function<void(int agent, const v1::Hello&, bool resumed)> on_hello;
  // Receives every message except Hello, exactly once and in order. Pong is included.
  std::function<void(int agent, const v1::AgentMessage&)> on_message;
  // The stream ended. The agent may come back.
  std::function<void(int agent)> on_cut;
  // The agent or the server cannot read a message of the other. The server has ordered the agent to end what it runs.
  // The owner must call forget().
  std::function<void(int agent)> on_unreadable;

  static base::Result<std::unique_ptr<ControlServer>> start(base::Loop& loop, ControlServerOptions options);
  ~ControlServer();

  int port() const;
  // Adds an agent that may connect. Returns its number, which is the next free one.
  int add_agent(const std::string& token);
  // Adds a connected socket (the end of a mux stream), as if it had been accepted.
  void add_connection(base::UniqueFd fd);
  // Sends a numbered message. The server keeps it until the agent acknowledges it, and resends it after a cut.
  void send(int agent, v1::LauncherMessage message);
  // Sends a message without a number, such as Ping. It is dropped while the agent has no stream.
  void send_unnumbered(int agent, v1::LauncherMessage message);
  // Ends the agent's stream. The agent then reconnects.
  void cut(int agent);
  // Forgets the agent: refuses its later streams and drops messages to it. Once its stream has ended, all its state is
  // freed. Its number is never used again.
  void forget(int agent);
  // Returns the number of agents for which the server keeps state.
  std::size_t agents() const;

 private:
  ControlServer();
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcherd::service
