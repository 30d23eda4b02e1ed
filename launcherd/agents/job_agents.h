// The agents of one start of a job, as its runner sees them. Each host has one agent, identified by the host's index.
//
// There are two kinds of agents. OwnAgents (own_agents.h) are started for the job and end with it; hvdrun uses them,
// and keeps them for later generations of the job (kept_agents.h). Agents of a HostPool (host_pool.h) stay idle between
// jobs and serve several jobs of launcherd, also at the same time.
//
// Owner: JobRunner's core, which is also the listener.
// Thread: loop thread only. The listener is called from the loop, also from within send() and the other calls. It must
// not destroy the agents in such a call. After destruction the listener is not called.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/net.h"
#include "base/status.h"
#include "launcherd/bootstrap/bootstrap.h"
#include "launcherd/output/output_sink.h"
#include "proto/muster/v1/agent.pb.h"

namespace muster::launcherd::inline agents {

// The facts about a host's agent that is up.
struct AgentUp {
  v1::Hello hello;
  std::vector<base::IpAddress> launcher_addresses;  // this machine's addresses on the connection, best first
  std::optional<base::IpAddress> host_address;      // the host's address on the connection to the launcher
  std::string link;                                 // "dial" or "ssh"
  // Only for jobs resumed after a launcherd restart: all messages that the agent has sent about the job, in order.
  std::vector<v1::AgentMessage> history;
  bool has_launched = false;  // an earlier launcherd has sent the agent its ranks
};

class AgentListener {
 public:
  virtual ~AgentListener() = default;
  virtual void agent_started(int agent) = 0;  // the agent runs but has not sent Hello
  virtual void agent_up(int agent, AgentUp up) = 0;
  // Called if the agent does not come up. `message` names the host.
  virtual void agent_failed(int agent, const std::string& message) = 0;
  // Delivers each message except Hello, once and in order. Pong comes here too.
  virtual void agent_message(int agent, const v1::AgentMessage& message) = 0;
  virtual void agent_stream(int agent, bool is_there) = 0;  // the control stream was cut, or is back
  // Called when the agent has ended. Its ranks have ended with it, or a sweep will find and end them.
  virtual void agent_gone(int agent, const base::Status& status) = 0;
  // Called if the agent lives, but it or the launcher cannot read the other's messages. The launcher has ordered the
  // agent to end its ranks.
  virtual void agent_unreadable(int agent) = 0;
  virtual void output_complete(int agent) = 0;  // all output of its ranks is in the sink
  virtual void output_cut(int agent) = 0;       // after output_ends(), if output is missing
  virtual void output_failed(const base::Status& status) = 0;
  virtual void note(const std::string& line) = 0;  // for --verbose
  virtual void warn(const std::string& line) { note(line); }
};

struct AgentHost {
  BootstrapTarget target;
  bool is_local = false;   // this machine, which needs no ssh
  bool is_unused = false;  // another entry of the job is the same host, so this entry needs no agent
};

class JobAgents {
 public:
  virtual ~JobAgents() = default;

  // Starts the agents. Call it once. Fails only if the launcher itself cannot work, for example without a free port.
  virtual base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) = 0;
  // Adds a host to a job that runs. Its agent has the next index. start_added() then starts the agent; its events
  // follow. UNIMPLEMENTED: these agents are those of start() only.
  virtual base::Status add(AgentHost host) {
    return base::unimplemented("{}: no agent can be added to this job", host.target.name);
  }
  virtual void start_added(int /*agent*/) {}
  // Ends the starts of agents that are not up yet.
  virtual void cancel_start() = 0;

  // Sends a numbered message. It arrives once and in order, even after a cut.
  virtual void send(int agent, v1::LauncherMessage message) = 0;
  // Sends a message that is dropped while there is no stream.
  virtual void send_unnumbered(int agent, v1::LauncherMessage message) = 0;
  // Accepts output of these ranks. Call it before the ranks start.
  virtual void expect_output(int agent, const std::vector<int>& ranks) = 0;
  // Accepts output of more ranks. Call it before the ranks start. Agents whose jobs never get more ranks ignore the
  // call.
  virtual void expect_more_output(int /*agent*/, const std::vector<int>& /*ranks*/) {}
  // Call it when the agent has ended after its ranks. Output that the agent has sent is still read. output_complete()
  // or output_cut() follows, but neither does while the host keeps the connection open.
  virtual void output_ends(int agent) = 0;
  // Call this when the job no longer needs the agent. Sends Leave.
  virtual void leave(int agent) = 0;
  // Stops using the agent: its messages are ignored from now on. The agent then ends what it still runs of the job.
  virtual void drop(int agent) = 0;
  // Finds and ends the processes of the job that a dead agent has left on the host.
  virtual void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) = 0;
};

}  // namespace muster::launcherd::agents
