// The agents of one start of a job, as its runner sees them: one a host, told apart by the host's index. Two kinds:
// OwnAgents (own_agents.h) are started for the job and gone with it, as hvdrun has them; those of a HostPool
// (host_pool.h) are warm, and serve other jobs of launcherd before, beside and after this one.
//
// Loop thread only. The listener is called from the loop, also from inside calls of send() and its like; it does not
// destroy the agents there. After destruction it is not called any more.
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

// What is known of a host's agent when it is up.
struct AgentUp {
  v1::Hello hello;
  std::vector<base::IpAddress> launcher_addresses;  // of this machine on the way to the host, best first
  std::optional<base::IpAddress> host_address;      // of the host on that way
  std::string link;                                 // "dial" or "ssh"
  // Of a job that an earlier launcherd had begun: what its agent has said of it since, in order, and whether it was
  // told to start ranks.
  std::vector<v1::AgentMessage> history;
  bool has_launched = false;
};

class AgentListener {
 public:
  virtual ~AgentListener() = default;
  virtual void agent_started(int agent) = 0;  // it runs, and has not reported yet
  virtual void agent_up(int agent, AgentUp up) = 0;
  virtual void agent_failed(int agent, const std::string& message) = 0;  // it does not come up; names the host
  // Everything but Hello, once and in order; also Pong.
  virtual void agent_said(int agent, const v1::AgentMessage& message) = 0;
  virtual void agent_stream(int agent, bool is_there) = 0;  // it was cut, or is back
  // It has ended. What it was running has ended with it, or a sweep will find it.
  virtual void agent_gone(int agent, const base::Status& status) = 0;
  // It lives, but one of the two ends cannot read what the other says. It was told to end what it runs.
  virtual void agent_unreadable(int agent) = 0;
  virtual void output_complete(int agent) = 0;  // all that its ranks wrote is in the sink
  virtual void output_cut(int agent) = 0;       // after output_ends(): that was not all
  virtual void output_failed(const base::Status& status) = 0;
  virtual void note(const std::string& line) = 0;  // for --verbose
  virtual void warn(const std::string& line) { note(line); }
};

struct AgentHost {
  BootstrapTarget target;
  bool is_local = false;   // needs no ssh
  bool is_unused = false;  // another host of the job is the same one: this one's agent is not wanted
};

class JobAgents {
 public:
  virtual ~JobAgents() = default;

  // Once. Fails only when the launcher itself cannot work (no port, no key).
  virtual base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) = 0;
  // Those that are not up are given up.
  virtual void cancel_start() = 0;

  // Numbered: arrives once and in order, also after a cut.
  virtual void send(int agent, v1::LauncherMessage message) = 0;
  // Dropped while there is no stream.
  virtual void send_unnumbered(int agent, v1::LauncherMessage message) = 0;
  // Before the ranks start: output of these is let in.
  virtual void expect_output(int agent, const std::vector<int>& ranks) = 0;
  // More of them, before they start. Agents whose jobs get no more take nothing of theirs.
  virtual void expect_more_output(int /*agent*/, const std::vector<int>& /*ranks*/) {}
  // It has ended after its ranks: what it has sent of their output is still taken in. output_complete() or output_cut()
  // follows; neither, where its host does not end its connection.
  virtual void output_ends(int agent) = 0;
  // The agent is not needed for this job any more: Leave.
  virtual void leave(int agent) = 0;
  // Given up: nothing is taken from it any more, and what it still runs it ends when it notices.
  virtual void drop(int agent) = 0;
  // Looks for what a dead agent has left of the job, and ends it.
  virtual void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) = 0;
};

}  // namespace muster::launcherd::agents
