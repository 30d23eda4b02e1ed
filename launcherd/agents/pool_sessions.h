// The jobs on a pool's agents: opens, resumes and closes them. Private to this folder.
//
// PoolSessions reports a session's events through the pool_* functions of its `owner`, until detach().
//
// Owner: HostPool::Core.
// Thread: loop thread only. The bootstrap's threads post to it.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/gate.h"
#include "launcherd/agents/pool_parts.h"

namespace muster::launcherd::inline agents {

class PoolSessions {
 public:
  explicit PoolSessions(PoolParts& parts) : parts_(parts) {}

  // PooledAgents calls attach, detach, send and sweep.
  void attach(const AgentHost& host, const std::string& job, PoolSession session);
  // Sends Leave, now or when the agent is back. Does nothing if the job has another session there by now, with another
  // `agent`.
  void detach(const BootstrapTarget& target, const std::string& job, int agent);
  // Drops the message if the job's session there is not open, or if it is that of another `agent`.
  void send(const BootstrapTarget& target, const std::string& job, int agent, v1::LauncherMessage message,
            bool is_numbered);
  void sweep(const BootstrapTarget& target, const std::string& job,
             std::function<void(base::Result<CommandResult>)> done);

  // HostPool::Core calls the other functions. Call resume() when the host's agent has sent its first Hello.
  void resume(PoolHost& host);
  void message(PoolHost& host, const v1::AgentMessage& message);
  void stream(PoolHost& host, bool is_there);
  // Call this when the agent could not be started.
  void fail(PoolHost& host, const std::string& message);
  // Call this when the agent is gone. Starts another one for jobs that the lost agent had not opened.
  void lose(PoolHost& host, const std::string& why);
  // Ends all jobs that agents hold but that this launcherd does not know.
  void forget_others();

 private:
  void open(PoolHost& host, const std::string& job, PoolSession& session);
  void send_leave(PoolHost& host, const std::string& job);
  void leave_when_stored(PoolHost& host, const std::string& job);
  void stored(PoolHost& host, const std::string& job);
  void session_message(PoolHost& host, PoolSession& session, const v1::AgentMessage& message);
  void session_up(PoolHost& host, PoolSession& session);
  void closed_by_agent(PoolHost& host, const std::string& job);

  PoolParts& parts_;
  bool forgets_others_ = false;
  base::Gate gate_;
};

}  // namespace muster::launcherd::agents
