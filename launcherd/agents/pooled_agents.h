// A job's view of the pool's agents that it uses (host_pool.h).
//
// Owner: a shared_ptr of the job's runner, because the hub's thread posts to it. The pool must outlive it.
// Thread: loop thread only.
// Destruction: detaches the job from all its agents.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "launcherd/agents/host_pool.h"
#include "launcherd/agents/job_agents.h"
#include "launcherd/agents/output_meter.h"

namespace muster::launcherd::inline agents {

class PooledAgents final : public JobAgents, public std::enable_shared_from_this<PooledAgents> {
 public:
  // Hold the object by a shared_ptr, because the hub's thread posts to it.
  PooledAgents(HostPool::Core& pool, PooledJob job);
  ~PooledAgents() override;

  base::Status start(std::vector<AgentHost> hosts, OutputSink* sink, AgentListener* listener) override;
  base::Status add(AgentHost host) override;
  void start_added(int agent) override { attach(agent); }
  void cancel_start() override {}  // does nothing: other jobs may wait for the same agents
  void send(int agent, v1::LauncherMessage message) override;
  void send_unnumbered(int agent, v1::LauncherMessage message) override;
  void expect_output(int agent, const std::vector<int>& ranks) override;
  void expect_more_output(int agent, const std::vector<int>& ranks) override;
  void output_ends(int agent) override;
  void leave(int agent) override;
  void drop(int agent) override;
  void sweep(int agent, std::function<void(base::Result<CommandResult>)> done) override;

  // The pool calls these to report events of a session. Before it calls one of the first three, it removes the session.
  void pool_failed(int agent, const std::string& message);
  void pool_gone(int agent, const std::string& why);
  void pool_unreadable(int agent);
  void pool_up(int agent, AgentUp up);
  void pool_message(int agent, const v1::AgentMessage& message);
  void pool_stream(int agent, bool is_there);

 private:
  void attach(int agent);
  const AgentHost& at(int agent) const { return hosts_[static_cast<std::size_t>(agent)]; }
  std::string output_secret(int agent) const;

  HostPool::Core& pool_;
  const PooledJob job_;
  std::deque<AgentHost> hosts_;  // a deque, because add() must not move the others
  std::shared_ptr<OutputMeter> meter_;
  AgentListener* listener_ = nullptr;
};

}  // namespace muster::launcherd::agents
